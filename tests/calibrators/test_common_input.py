"""Common tests of input: labels, columns, precision, and invalid data."""

import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import _NotAnArray

from sklearn_calib._numerics.softmax import softmax
from sklearn_calib.calibrators import get_calibrator, get_calibrator_names
from sklearn_calib.calibrators._one_vs_rest import bbq as _bbq

# Calibrators to which a test does not apply, with the reason; see conftest.py.
DRAWN = "MetaCal(random_state=0, threshold_fraction=0.1)"
FOLDS = {"AutoCalibrator": "its random folds depend on the digits of X"}
EXCUSED = {
    "test_bad_predictions_are_refused": {DRAWN: "needs more than three rows"},
    "test_difference_of_logits_equals_two_columns": FOLDS,
    "test_logits_equal_their_softmax": FOLDS,
}
# With few samples, calibrators warn of a bound or of the end of a grid.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
both_scales = pytest.mark.parametrize("from_logits", [False, True])


@pytest.mark.parametrize("kind", [str, object])
def test_string_labels(calibrator, kind, fitted, overconfident, fresh):
    X, y = overconfident()
    names = np.array(["ant", "bee", "cat"], dtype=kind)
    named, expected = fresh(calibrator).fit(X, names[y]), fitted(calibrator)
    np.testing.assert_array_equal(named.classes_, names)
    np.testing.assert_array_equal(named.predict(X), names[expected.predict(X)])
    np.testing.assert_array_equal(named.predict_proba(X), expected.predict_proba(X))


def test_pandas(calibrator, fitted, overconfident, fresh):
    X, y = overconfident()
    frame = pd.DataFrame(X, columns=["ant", "bee", "cat"])
    frame.index += 100
    target = pd.Series(y, index=frame.index)
    framed = fresh(calibrator).fit(frame, target)
    expected = fitted(calibrator).predict_proba(X)
    # A DataFrame is stored by columns, which changes the rounding of sums of products.
    np.testing.assert_allclose(framed.predict_proba(frame), expected, rtol=1e-12)
    np.testing.assert_array_equal(framed.feature_names_in_, frame.columns)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        framed.predict_proba(X)
    positive = frame["cat"]
    framed.fit(positive, target == 2)
    assert framed.predict_proba(positive).shape == (len(y), 2)


def test_objects_that_are_only_converted_to_arrays(calibrator, overconfident, fresh):
    """They refuse all functions of numpy."""
    logits, y = overconfident(2, from_logits=True)
    samples = logits, y, np.ones(len(y))
    given = fresh(calibrator, from_logits=True).fit(*samples)
    wrapped = fresh(given).fit(*map(_NotAnArray, samples))
    for X in (logits, logits[:, 1], logits[:, [1]]):
        expected = given.predict_proba(X)
        np.testing.assert_array_equal(wrapped.predict_proba(_NotAnArray(X)), expected)


@pytest.mark.filterwarnings("ignore:X has feature names")
def test_names_of_columns(calibrator, make_logits, fresh):
    """Columns with the names of classes are in the order of the classes."""
    logits, y = make_logits(n_samples=60, n_classes=3)
    names = np.array(["ant", "bee", "cat"])
    X = pd.DataFrame(softmax(logits), columns=names)
    fitted = fresh(calibrator).fit(X.to_numpy(), names[y])
    fitted.predict_proba(X)
    for method in (fresh(fitted).fit, lambda X, _: fitted.predict_proba(X)):
        with pytest.raises(ValueError, match=r"X = X\[\['ant', 'bee', 'cat'\]\]"):
            method(X[["bee", "ant", "cat"]], names[y])
        with pytest.raises(ValueError, match="or by none of them"):
            method(X.rename(columns={"ant": "ape"}), names[y])
    labels = names[[1, 0, 2]]
    fresh(fitted).fit(X[labels], names[y], labels=labels)


@both_scales
def test_predicted_labels_are_told_once(calibrator, from_logits, fresh):
    y, labels = np.arange(40) % 2, np.array([0, 1, 1, 0] * 10)
    calibrator = fresh(calibrator, from_logits=from_logits)
    for X in (labels, labels > 0, labels[:, None]):
        for method in (calibrator.fit, lambda X, _: calibrator.predict(X)):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                method(X, y)
            texts = [str(warning.message) for warning in found]
            assert sum("look like predicted labels" in text for text in texts) == 1
            assert not any("look like probabilities" in text for text in texts)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        calibrator.fit(labels.astype(float), y)
    assert not any("predicted labels" in str(warning.message) for warning in found)


def test_absent_classes_are_named(calibrator, overconfident, fresh):
    """All warnings of absent classes begin and end in the same way."""
    X, y = overconfident()
    kept = y != 2
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        fresh(calibrator).fit(X[kept], y[kept], labels=range(3))
    texts = [
        str(warning.message)
        for warning in found
        if "samples of [" in str(warning.message)
    ]
    assert len(texts) <= 1
    wanted = r"y contains no samples of \[2\]: .+\. Calibrate with samples of all cl"
    assert all(re.match(wanted, text) for text in texts)
    by_class = {"PlattScaling", "VectorScaling", "AutoCalibrator", "HistogramBinning"}
    assert texts or type(calibrator).__name__ not in by_class


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_positive_class_alone_equals_two_columns(calibrator, shape, make_logits, fresh):
    logits, y = make_logits(100, 2)
    proba = softmax(3 * logits)
    one = fresh(calibrator).fit(proba[:, 1].reshape(shape), y)
    proba[:, 0] = 1 - proba[:, 1]
    two = fresh(calibrator).fit(proba, y)
    assert (one.n_features_in_, two.n_features_in_) == (1, 2)
    expected = two.predict_proba(proba)
    np.testing.assert_array_equal(
        one.predict_proba(proba[:, 1].reshape(shape)), expected
    )


def test_probabilities_instead_of_logits_are_told(
    calibrator, make_logits, fresh, monkeypatch
):
    logits, y = make_logits(60, 2)
    calibrator = fresh(calibrator, from_logits=True)
    proba = softmax(3 * logits)
    with monkeypatch.context() as patch:
        patch.setattr(type(calibrator), "_fit", lambda *_: None)
        for X in (proba, proba.astype(np.float16), proba.round(3), proba[:, 1]):
            with pytest.warns(UserWarning, match="values that look like probabilities"):
                fresh(calibrator).fit(X, y)
    calibrator.fit(logits, y).predict_proba(np.eye(2)[:1])  # one row proves nothing
    with pytest.warns(UserWarning, match="fit with from_logits=False"):
        calibrator.predict_proba(proba)
    # A logit may lie in [0, 1].
    calibrator.fit(logits[:, 1], y).predict_proba(proba[:, 1])


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_difference_of_logits_equals_two_columns(
    calibrator, shape, fitted, overconfident, fresh
):
    logits, y = overconfident(2, from_logits=True)
    difference = (logits[:, 1] - logits[:, 0]).reshape(shape)
    one = fresh(calibrator, from_logits=True).fit(difference, y)
    two = fitted(calibrator, 2, from_logits=True).predict_proba(logits)
    np.testing.assert_allclose(one.predict_proba(difference), two, rtol=1e-9)


@both_scales
def test_float32_is_kept_and_close_to_float64(
    calibrator, from_logits, fitted, overconfident, fresh
):
    X, y = overconfident(3, from_logits)
    double = fitted(calibrator, 3, from_logits).predict_proba(X)
    X = X.astype(np.float32)
    single = fresh(calibrator, from_logits=from_logits).fit(X, y).predict_proba(X)
    assert (double.dtype, single.dtype) == (np.float64, np.float32)
    np.testing.assert_allclose(single, double, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(single.sum(axis=1), 1, rtol=1e-6)


def test_logits_equal_their_softmax(calibrator, fitted, overconfident):
    from_logits, from_proba = (
        fitted(calibrator, 3, is_logit).predict_proba(overconfident(3, is_logit)[0])
        for is_logit in (True, False)
    )
    np.testing.assert_allclose(from_logits, from_proba)


def test_zeros_and_small_probabilities_that_fit_has_not_seen(
    calibrator, make_logits, fresh
):
    """Zeros are replaced by a small value, and smaller values by at least as much."""
    logits, y = make_logits(200)
    X = softmax(logits)
    fitted = fresh(calibrator).fit(X, y)
    assert fitted.zero_replacement_ == np.finfo(np.float64).eps
    X[X < 1e-3] = 0
    X /= X.sum(axis=1, keepdims=True)
    for some in (X[X.min(axis=1) > 0], X):
        fitted.fit(some, y[: len(some)])
        proba = fitted.predict_proba([[0.5, 0.3, 0.2, 0], [0.5, 0.3, 0.2, 1e-30]])
        assert (proba > 0).all()
        if fitted.preserves_argmax:
            np.testing.assert_array_equal(proba.argmax(axis=1), 0)
            assert proba[0, 3] <= proba[1, 3]
    assert fitted.zero_replacement_ == X[X > 0].min() / 2
    fitted.fit(np.eye(4)[[0, 1, 2, 3, 0]], [0, 1, 2, 3, 1])
    assert fitted.zero_replacement_ == 1 / 8


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_columns", [1, 2, 4])
def test_what_rounding_leaves_outside_of_0_and_1(
    calibrator, dtype, n_columns, make_logits, fresh
):
    """`fit` and `predict_proba` clip it."""
    logits, y = make_logits(n_samples=60, n_classes=max(2, n_columns))
    X = softmax(3 * logits)[:, -n_columns:]
    ends = np.eye(max(2, n_columns))[y[::5], -n_columns:]
    X[::5] = np.where(ends == 1, 1.00001, [[1e-5], [-1e-5]] * 6)
    X = X.astype(dtype)
    assert X.max() > 1 > X.min() + 1
    expected = fresh(calibrator).fit(X.clip(0, 1), y).predict_proba(X.clip(0, 1))
    proba = fresh(calibrator).fit(X, y).predict_proba(X)
    assert np.isfinite(proba).all()
    np.testing.assert_array_equal(proba, expected)
    with pytest.raises(ValueError, match=r"X must lie in .* got values in .*1\.0004\]"):
        fresh(calibrator).fit(np.where(X > 1, dtype(1.0004), X), y)


def test_memory_order_and_input_are_left_alone(
    calibrator, fitted, overconfident, fresh
):
    """The input of `fitted` is read-only."""
    X, y = overconfident()
    fortran = np.asfortranarray(X)
    fortran.flags.writeable = True
    proba = fresh(calibrator).fit(fortran, y).predict_proba(fortran)
    np.testing.assert_allclose(proba, fitted(calibrator).predict_proba(X), rtol=1e-12)
    np.testing.assert_array_equal(fortran, X)


def test_pickle(calibrator, fitted, overconfident):
    X, model = overconfident()[0], fitted(calibrator)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


PROBA = np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.1, 0.2, 0.7]])
BAD_FITS = {
    "logits": ((PROBA * 9, [0, 1, 2]), r"X must lie in \[0, 1\].*from_logits=True"),
    "negative": (([[1.5, -0.5], [0, 1]], [0, 1]), r"must lie in \[0, 1\].*-0.5"),
    "sums": ((PROBA * 0.9, [0, 1, 2]), r"sum to one.*0\.9.*from_logits=True"),
    "nan": ((PROBA * np.nan, [0, 1, 2]), "NaN"),
    "infinite": ((PROBA + np.inf, [0, 1, 2]), "infinity"),
    "1-d logits": (([-1.0, 2.0], [0, 1]), r"must lie in \[0, 1\].*from_logits=True"),
    "3-d": ((PROBA[None], [0]), "dim 3"),
    "length of y": ((PROBA, [0, 1]), r"inconsistent numbers of samples.*\[3, 2\]"),
    "nan in y": ((PROBA, [0, 1, np.nan]), "y must not contain missing values"),
    "too many labels": (
        (PROBA[:, 1] * 1, [0, 1, 2]),
        "y must contain 2 distinct labels",
    ),
    "weight": ((PROBA, [0, 1, 2], [1, -1, 1]), "sample_weight must be non-negative"),
    "no weight": ((PROBA, [0, 1, 2], [0, 0, 0]), "ample.weight"),
    "weights": ((PROBA, [0, 1, 2], [1, 1]), "sample_weight"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD_FITS.values())
def test_bad_data_is_refused(calibrator, arguments, message, fresh):
    with pytest.raises(ValueError, match=message):
        fresh(calibrator).fit(*arguments)


@pytest.mark.parametrize("from_logits", [None, "yes"])
def test_bad_from_logits_is_refused(calibrator, from_logits, fresh):
    with pytest.raises(ValueError, match=f"'from_logits'.*Got {from_logits!r}"):
        fresh(calibrator, from_logits=from_logits).fit(PROBA, [0, 1, 2])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 3], r"only the labels \[0, 1, 3\], got also \[2\]"),
        ([0, 1, 2, 3], "labels must contain 3 distinct labels"),
        ([0, 1, 1], "labels must contain 3 distinct labels"),
        ([[0], [1], [2]], "labels must contain 3 distinct labels"),
        ([{}, {}, {}], "labels must contain labels of one type .* got dict"),
    ],
)
def test_bad_labels_are_refused(calibrator, labels, message, fresh):
    with pytest.raises((TypeError, ValueError), match=message):
        fresh(calibrator).fit(PROBA, [0, 1, 2], labels=labels)


def test_bad_predictions_are_refused(calibrator, fresh):
    with pytest.raises(NotFittedError):
        fresh(calibrator).predict(PROBA)
    fitted = fresh(calibrator).fit(PROBA, [0, 1, 2])
    with pytest.raises(ValueError, match=r"2 features, but .* is expecting 3"):
        fitted.predict_proba(PROBA[:, :2] / PROBA[:, :2].sum(axis=1, keepdims=True))
    with pytest.raises(ValueError, match="sum to one"):
        fitted.predict_proba(2 * PROBA / 3)


@pytest.mark.parametrize("factor", [1e6, "wide", "one"])
def test_weights_of_any_size(calibrator, factor, make_logits, fresh, monkeypatch):
    """Large weights do not increase the time, which BBQ limits."""
    monkeypatch.setattr(_bbq, "MOST_SAMPLES", 1000)
    logits, y = make_logits(n_samples=60, n_classes=3)
    position = np.arange(len(y)) % 5
    weight = {
        "wide": lambda: 10.0 ** (1.5 * position - 3),
        "one": lambda: np.append(1e6, np.ones(len(y) - 1)),
    }.get(factor, lambda: factor * (1 + position))()
    X = softmax(3 * logits)
    proba = fresh(calibrator).fit(X, y, weight).predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert 0 < proba.min() <= proba.max() <= 1


def test_largest_logits(calibrator, make_logits, fresh):
    """They are calibrated or raise an error that names them, without a warning."""
    logits, y = make_logits(n_samples=60, n_classes=3)
    fitted = fresh(calibrator).set_params(from_logits=True).fit(logits, y)
    try:
        proba = fitted.predict_proba(np.sign(logits) * np.finfo(float).max)
    except ValueError as error:
        if not str(error).startswith("X must contain logits that do not overflow"):
            raise
    else:
        np.testing.assert_allclose(proba.sum(axis=1), 1)


def test_registry():
    assert get_calibrator_names() == sorted(get_calibrator_names())
    with pytest.raises(ValueError, match=r"'temprature'\. Did you mean 'temperature'?"):
        get_calibrator("temprature")
    with pytest.raises(ValueError, match="got 3"):
        get_calibrator(3)
