"""PerGroupCalibrator: its numbers, its laws, and groups of every kind."""

import copy
import pickle
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss

from sklearn_calib.calibrators import (
    GroupCalibrator,
    IsotonicCalibration,
    PerGroupCalibrator,
    PlattScaling,
    StructuredVectorScaling,
    TemperatureScaling,
    get_calibrator,
    get_calibrator_names,
)
from sklearn_calib.metrics import expected_calibration_error, per_group

few_errors = pytest.mark.filterwarnings("ignore:.* needs about .* misclassified")


def make_groups(n_samples=600, n_groups=4, n_classes=2, scale=0.7, seed=0):
    """Return logits, labels, and groups with a bias of each class."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(n_samples, n_classes))
    groups = rng.integers(n_groups, size=n_samples)
    bias = scale * rng.normal(size=(n_groups, n_classes))
    noise = rng.gumbel(size=logits.shape)
    return logits, (logits + bias[groups] + noise).argmax(axis=1), groups


def fitted(X, y, groups, calibrator=None, weight=None, **params):
    calibrator = PlattScaling() if calibrator is None else calibrator
    model = PerGroupCalibrator(calibrator, from_logits=True).set_params(**params)
    return model.fit(X, y, weight, groups=groups)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_map_of_a_group_minimises_its_penalised_log_loss(n_classes):
    """By another program, with the definition of the documentation."""
    X, y, groups = make_groups(600, 3, n_classes)
    weight = np.random.default_rng(1).uniform(0.5, 2, size=600)
    first = TemperatureScaling()
    model = fitted(X, y, groups, first, weight, lambd=4.0)
    without = TemperatureScaling(from_logits=True).fit(X, y, weight)
    log_proba = np.log(without.predict_proba(X))
    for k, group in enumerate(model.groups_):
        rows = groups == group
        z, codes, w = log_proba[rows], y[rows], weight[rows, None]
        information = w * np.exp(z) * (1 - np.exp(z))
        origin = (information * z).sum(axis=0) / information.sum(axis=0)

        def loss(params, z=z, codes=codes, w=w, origin=origin):
            slope, bias = params.reshape(2, n_classes)
            scores = log_softmax(z + slope * (z - origin) + bias, axis=1)
            likelihood = w[:, 0] @ scores[np.arange(len(codes)), codes]
            return 2.0 * (params**2).sum() - likelihood

        found = minimize(loss, np.zeros(2 * n_classes), tol=1e-10).x
        slope, bias = found.reshape(2, n_classes)
        np.testing.assert_allclose(model.coef_[k], 1 + slope, atol=1e-4)
        expected = softmax(z + slope * (z - origin) + bias, axis=1)
        proba = model.predict_proba(X[rows], groups=groups[rows])
        np.testing.assert_allclose(proba, expected, atol=1e-5)
    np.testing.assert_array_equal(model.prior_precision_, 4)
    np.testing.assert_allclose(model.n_samples_, np.bincount(groups, weight))


def test_the_precision_is_that_of_the_biases():
    """With many groups, it is known: one over the variance of the biases."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(300), 100)
    logits = 2 * rng.normal(size=(len(groups), 3))
    bias = 0.4 * rng.normal(size=(300, 3))
    y = (logits + bias[groups] + rng.gumbel(size=logits.shape)).argmax(axis=1)
    slopes, intercepts = fitted(
        logits, y, groups, TemperatureScaling()
    ).prior_precision_
    assert slopes > 1000
    assert intercepts == pytest.approx(1 / 0.4**2, rel=0.1)


def test_repairs_every_group_and_keeps_unseen_ones():
    X, y, groups = make_groups(20_000, scale=1.0)
    model = fitted(X[::2], y[::2], groups[::2])
    test, labels, group = X[1::2], y[1::2], groups[1::2]
    without = PlattScaling(from_logits=True).fit(X[::2], y[::2]).predict_proba(test)
    proba = model.predict_proba(test, groups=group)
    errors = [
        per_group(
            expected_calibration_error, labels, p[:, 1], groups=group, reduce_bias=True
        )["value"][:-1]
        for p in (without, proba)
    ]
    assert errors[0].max() > 0.1
    assert errors[1].max() < 0.03
    for unseen in ("another", None, np.nan, 99):
        found = model.predict_proba(test, groups=[unseen] * len(test))
        np.testing.assert_allclose(found, without, rtol=1e-12)
    np.testing.assert_array_equal(
        model.predict(test, groups=group), proba.argmax(axis=1)
    )


# Folds of the automatic calibrator are random, but do not depend on the groups.
@pytest.mark.parametrize("name", get_calibrator_names())
@few_errors
def test_one_group_has_the_map_of_all_samples(name, fresh):
    X, y, _ = make_groups(100, n_classes=3)
    calibrator = fresh(get_calibrator(name)())
    model = fitted(X, y, ["a"] * len(y), calibrator)
    expected = calibrator.set_params(from_logits=True).fit(X, y).predict_proba(X)
    proba = model.predict_proba(X, groups=["a"] * len(y))
    np.testing.assert_allclose(proba, expected, rtol=1e-9, atol=1e-12)
    assert not hasattr(model, "prior_precision_")
    several = fitted(X, y, np.arange(100) % 3, calibrator)
    found = several.predict_proba(X, groups=np.arange(100) % 3)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert (found > 0).all()


@few_errors
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.sampled_from([2, 3]))
def test_order_and_names_do_not_matter(seed, n_groups, n_classes):
    X, y, groups = make_groups(60, n_groups, n_classes, seed=seed)
    y[:n_classes] = np.arange(n_classes)
    model = fitted(X, y, groups, TemperatureScaling())
    proba = model.predict_proba(X, groups=groups)
    rng = np.random.default_rng(seed)
    order = rng.permutation(60)
    names = np.array(list("vwxyz"))[rng.permutation(5)]
    again = fitted(X[order], y[order], names[groups[order]], TemperatureScaling())
    found = again.predict_proba(X, groups=names[groups])
    np.testing.assert_allclose(found, proba, rtol=1e-6)


@few_errors
@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(1, 5), st.sampled_from([1.0, "empirical_bayes"])
)
def test_weights_equal_repetitions(seed, n_groups, lambd):
    X, y, groups = make_groups(80, n_groups, seed=seed)
    weight = np.random.default_rng(seed).integers(0, 3, size=80)
    weight[:2], y[:2] = 1, [0, 1]
    model = fitted(X, y, groups, weight=weight, lambd=lambd)
    repeated = [values.repeat(weight, axis=0) for values in (X, y, groups)]
    expected = fitted(*repeated, lambd=lambd)
    np.testing.assert_allclose(
        model.predict_proba(X, groups=groups),
        expected.predict_proba(X, groups=groups),
        rtol=1e-6,
    )
    assert model.groups_ == expected.groups_


def test_groups_of_every_kind():
    X, y, codes = make_groups(600, 6)
    first, second = codes % 2, codes // 2
    frame = pd.DataFrame(
        {
            "sex": np.array(["f", "m"], dtype=object)[first],
            "age": pd.cut(second, [-1, 0, 1, 2]),
        }
    )
    frame.loc[frame["sex"] == "f", "sex"] = None
    frame.index = np.zeros(len(frame), dtype=int)
    model = fitted(X, y, frame, lambd=1.0)
    proba = model.predict_proba(X, groups=frame)
    assert model.group_names_in_.tolist() == ["sex", "age"]
    assert len(model.groups_) == 6
    assert model.groups_[0][0] == "m"
    assert model.groups_[-1] == (None, frame["age"].cat.categories[2])
    floats = np.column_stack([np.where(first == 0, np.nan, 1.0), second])
    for groups in (
        codes,
        codes.astype(str),
        codes.tolist(),
        pd.Series(codes, dtype="Int64"),
        pd.Series(codes, dtype="category"),
        pd.Series(codes).map(lambda code: ("tuple", code)),
        pd.to_datetime(codes, unit="D"),
        np.column_stack([first, second]),
        [["x" if a else None, b] for a, b in zip(first, second, strict=True)],
        floats,
        floats.astype(object),
        np.where(codes == 0, None, codes.astype(object)),
    ):
        again = fitted(X, y, groups, lambd=1.0)
        found = again.predict_proba(X, groups=groups)
        np.testing.assert_allclose(found, proba, rtol=1e-9)
    # An array has no names; a combination that did not occur is no group.
    found = model.predict_proba(X, groups=frame.to_numpy())
    np.testing.assert_array_equal(found, proba)
    new = [["m", "unknown"], [None, 1], [None, None]]
    expected = model.calibrator_.predict_proba(X[:3])
    np.testing.assert_allclose(model.predict_proba(X[:3], groups=new), expected)


@few_errors
def test_small_groups_and_absent_classes():
    """A group of one sample, and one without a class; ten classes, with names."""
    X, y, groups = make_groups(2000, 3, n_classes=10)
    names = np.array([f"class {k}" for k in range(10)])
    groups[0], groups[1:40] = 7, 8
    keep = (groups != 8) | (y < 3)
    X, y, groups = X[keep], y[keep], groups[keep]
    model = fitted(X, names[y], groups, StructuredVectorScaling())
    proba = model.predict_proba(X, groups=groups)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert model.n_samples_.sum() == len(y)
    assert model.groups_ == [0, 1, 2, 7, 8]
    assert (np.abs(model.intercept_[3]) < 1).all()
    without = model.calibrator_.predict_proba(X)
    rows = groups == 8
    assert proba[rows, 3:].sum() < without[rows, 3:].sum()
    assert (proba[rows] > 0).all()
    several = PerGroupCalibrator(TemperatureScaling(), from_logits=True)
    several.fit(X, y, groups=groups, labels=np.arange(12)[:10])
    assert several.classes_.tolist() == list(range(10))


def test_a_strong_prior_is_the_map_of_all_samples():
    X, y, groups = make_groups()
    without = PlattScaling(from_logits=True).fit(X, y).predict_proba(X)
    losses = []
    for lambd in (1e12, 100, 1):
        model = fitted(X, y, groups, lambd=lambd)
        losses.append(log_loss(y, model.predict_proba(X, groups=groups)))
        if lambd == 1e12:
            found = model.predict_proba(X, groups=groups)
            np.testing.assert_allclose(found, without, rtol=1e-6)
    assert losses == sorted(losses, reverse=True)


def test_probabilities_logits_and_dtypes():
    X, y, groups = make_groups()
    proba = softmax(X, axis=1)
    expected = fitted(X, y, groups).predict_proba(X, groups=groups)
    model = PerGroupCalibrator(PlattScaling())
    for data in (proba, proba[:, 1], pd.DataFrame(proba, columns=["no", "yes"])):
        found = model.fit(data, y, groups=groups).predict_proba(data, groups=groups)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert hasattr(model, "feature_names_in_") == isinstance(data, pd.DataFrame)
    assert model.n_features_in_ == 2
    single = fitted(X.astype(np.float32), y, groups)
    found = single.predict_proba(X.astype(np.float32), groups=groups)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    default = PerGroupCalibrator().fit(proba, y, groups=groups)
    found = default.predict_proba(proba, groups=groups)
    assert log_loss(y, found) < log_loss(y, expected) + 0.01
    score = default.score(proba, y, np.arange(len(y)) % 2, groups=groups)
    assert score == (y == found.argmax(axis=1))[1::2].mean()


@cache
def fitted_once():
    X, y, groups = make_groups(60, 2)
    y[:2] = [0, 1]
    return fitted(X, y, groups)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"groups": [1, 2]}, ValueError, "one group for each sample, got 2 groups and"),
        ({"groups": {"a": 1}}, TypeError, "groups must be array-like .* got a dict"),
        ({"groups": None}, TypeError, "groups must be array-like .* got None"),
        ({"groups": "a"}, TypeError, "groups must be array-like .* got 'a'"),
        ({"groups": csr_array(np.eye(60))}, TypeError, "got a csr_array. Pass a list"),
        ({"groups": [[1, 2], [3]] * 30}, ValueError, "groups must have rows of equal"),
        ({"groups": pd.Series([[1]] * 60)}, TypeError, "groups must contain hashable"),
        ({"groups": np.zeros((60, 2, 2))}, ValueError, "groups must have shape"),
        ({"lambd": 0}, ValueError, "'lambd' parameter"),
        ({"lambd": "cv"}, ValueError, "'lambd' parameter"),
        ({"calibrator": PlattScaling}, ValueError, "'calibrator' parameter"),
        ({"calibrator": PerGroupCalibrator()}, ValueError, "'calibrator' parameter"),
        ({"y": np.zeros(60)}, ValueError, "y must contain 2 distinct labels"),
        ({"y": np.arange(59) % 2}, ValueError, "inconsistent numbers of samples"),
        ({"X": np.full((60, 2), np.nan)}, ValueError, "Input X contains NaN"),
        ({"X": np.full((60, 2), "1")}, ValueError, "could not convert string"),
        ({"sample_weight": ["1"] * 60}, ValueError, "could not convert string"),
        ({"sample_weight": np.full(60, -1.0)}, ValueError, "sample_weight must"),
    ],
)
@few_errors
def test_bad_input(params, error, message):
    X, y, groups = make_groups(60, 2)
    y[:2] = [0, 1]
    model = copy.deepcopy(fitted_once())
    before = model.predict_proba(X, groups=groups)
    data = {"X": X, "y": y, "groups": groups, "sample_weight": None}
    own = {name: value for name, value in params.items() if name not in data}
    data |= {name: value for name, value in params.items() if name in data}
    settings = model.get_params(deep=False)
    with pytest.raises(error, match=message):
        model.set_params(**own).fit(**data)
    model.set_params(**{name: settings[name] for name in own})
    np.testing.assert_array_equal(model.predict_proba(X, groups=groups), before)


def test_groups_of_other_columns():
    X, y, groups = make_groups()
    frame = pd.DataFrame({"a": groups, "b": groups % 2})
    model = fitted(X, y, frame)
    with pytest.raises(
        ValueError, match=r"columns \['a', 'b'\], in this order, .* \['b"
    ):
        model.predict_proba(X, groups=frame[["b", "a"]])
    with pytest.raises(ValueError, match="2 columns, as in fit, got 1"):
        model.predict_proba(X, groups=groups)
    with pytest.raises(ValueError, match="got 3 groups and 600 samples"):
        model.predict_proba(X, groups=frame[:3])
    with pytest.raises(TypeError, match="groups"):
        model.predict_proba(X)
    with pytest.raises(TypeError, match="groups"):
        PerGroupCalibrator().fit(X, y)
    with pytest.raises(NotFittedError):
        PerGroupCalibrator().predict_proba(X, groups=groups)


@pytest.mark.filterwarnings("error")
def test_warnings_come_once():
    X, y, groups = make_groups(40)
    y[:2] = [0, 1]
    with pytest.warns(UserWarning, match="PlattScaling needs about") as caught:
        fitted(10 * X, (X[:, 1] > X[:, 0]).astype(int), groups)
    assert len(caught) == 1
    X, y, groups = make_groups()
    with pytest.warns(UserWarning, match="from_logits") as caught:
        fitted(softmax(X, axis=1), y, groups)
    assert len(caught) == 1


def test_copies():
    X, y, groups = make_groups()
    model = fitted(X, y, groups)
    proba = model.predict_proba(X, groups=groups)
    again = pickle.loads(pickle.dumps(model)).predict_proba(X, groups=groups)
    np.testing.assert_array_equal(again, proba)
    refitted = clone(model).fit(X, y, groups=groups)
    np.testing.assert_array_equal(refitted.predict_proba(X, groups=groups), proba)
    assert isinstance(model, GroupCalibrator)
    with pytest.raises(NotFittedError):
        _ = clone(model).groups_
    # A fit with one group removes what several have left.
    model.fit(X, y, groups=np.zeros(len(y)))
    assert not hasattr(model, "prior_precision_")


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.0, 0.5])
@pytest.mark.parametrize("calibrator", [PlattScaling(), IsotonicCalibration()])
def test_a_group_of_twenty_does_no_harm(scale, calibrator):
    """On average over its biases; a map that is fitted to it alone does harm.

    Four of eight groups are that small, in each of 40 draws.
    """
    gains, separate = [], []
    for seed in range(40):
        X, y, groups = make_groups(4000, 8, scale=scale, seed=seed)
        rare = [np.flatnonzero(groups == group) for group in range(4)]
        used = np.r_[np.flatnonzero(groups > 3), *(rows[:20] for rows in rare)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = fitted(X[used], y[used], groups[used], calibrator)
            for rows in rare:
                few, new = rows[:20], rows[20:]
                single = clone(calibrator).set_params(from_logits=True)
                single.fit(X[few], y[few], labels=[0, 1])
                without, shrunk, alone = (
                    -np.log(proba[np.arange(len(new)), y[new]]).mean()
                    for proba in (
                        model.calibrator_.predict_proba(X[new]),
                        model.predict_proba(X[new], groups=groups[new]),
                        single.predict_proba(X[new]),
                    )
                )
                gains.append(without - shrunk)
                separate.append(without - alone)
    # In nats, where the log loss is about 0.5.
    assert np.mean(gains) > (0.01 if scale else -0.001)
    assert np.mean(separate) < np.mean(gains) - 0.01
