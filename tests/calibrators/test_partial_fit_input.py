"""Input of `partial_fit`, and what copies and files of a calibrator keep."""

import json
import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sklearn_calib.calibrators import (
    BetaCalibration,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
)
from sklearn_calib.persistence import from_dict, to_dict

LABELS = np.array(["ant", "bee", "cat", "dog"])
ONLINE = [
    TemperatureScaling(),
    PlattScaling(),
    VectorScaling(),
    BetaCalibration(parameters="am"),
]

every_calibrator = pytest.mark.parametrize("calibrator", ONLINE)


def draw(n_samples, n_classes=3):
    """Return logits that are too large, and labels."""
    rng = np.random.default_rng(0)
    logits = 1.5 * rng.normal(size=(n_samples, n_classes))
    return 1.5 * logits, (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


def update(calibrator, X, y, size, classes=None):
    """Return a clone that is updated with batches of a size."""
    online = clone(calibrator)
    classes = np.arange(X.shape[1]) if classes is None else classes
    for start in range(0, len(X), size):
        rows = slice(start, start + size)
        online.partial_fit(X[rows], y[rows], classes=classes)
    return online


def distance(one, other, X):
    """Return the largest difference of probabilities."""
    return np.abs(one.predict_proba(X) - other.predict_proba(X)).max()


def test_order_of_the_columns_and_labels_of_any_type():
    X, y = draw(1500)
    order = [2, 0, 1]
    one = update(PlattScaling(), softmax(X, axis=1), LABELS[y], 300, classes=LABELS[:3])
    other = PlattScaling()
    for rows in np.array_split(np.arange(1500), 5):
        frame = pd.DataFrame(softmax(X[rows][:, order], axis=1), columns=LABELS[order])
        other.partial_fit(frame, pd.Series(LABELS[y[rows]]), classes=LABELS[order])
    assert list(other.feature_names_in_) == list(LABELS[order])
    frame = pd.DataFrame(softmax(X[:, order], axis=1), columns=LABELS[order])
    expected = one.predict_proba(softmax(X, axis=1))[:, order]
    np.testing.assert_allclose(other.predict_proba(frame), expected, atol=1e-9)


def test_one_column_is_the_positive_class():
    X, y = draw(1500, 2)
    proba = softmax(X, axis=1)
    two = update(BetaCalibration(), proba, y, 250)
    one = update(BetaCalibration(), proba[:, 1], y, 250, classes=[0, 1])
    np.testing.assert_allclose(one.predict_proba(proba[:, 1]), two.predict_proba(proba))


@every_calibrator
def test_a_tiny_half_life_keeps_only_the_last_batch(calibrator):
    X, y = draw(300)
    online = clone(calibrator).partial_fit(softmax(X, axis=1), y, classes=range(3))
    one, other = online, pickle.loads(pickle.dumps(online))
    one.partial_fit(softmax(X[:200], axis=1), y[:200], half_life=0.1)
    other.partial_fit(softmax(X[:200], axis=1), y[:200], half_life=0.15)
    assert distance(one, other, softmax(X, axis=1)) == 0


def test_numbers_of_other_types():
    """A half-life of numpy, and weights as decimals."""
    X, y = draw(300)
    proba, weight = softmax(X, axis=1), 1 + np.arange(300) % 3
    online = TemperatureScaling().partial_fit(
        proba, y, weight, classes=range(3), half_life=np.float32(7)
    )
    same = TemperatureScaling().partial_fit(
        proba, y, [Decimal(w) for w in weight.tolist()], classes=range(3), half_life=7.0
    )
    assert distance(online, same, proba) == 0


@every_calibrator
def test_fit_starts_anew(calibrator):
    X, y = draw(2000)
    calibrator = clone(calibrator).set_params(from_logits=True)
    online = update(calibrator, X, y, 500)
    fitted = clone(calibrator).fit(2 * X, y)
    assert distance(online.fit(2 * X, y), fitted, X) == 0
    online = update(calibrator, X, y, 500)
    online.fit(batches=lambda: [(2 * X, y)], labels=range(3))
    assert distance(online, fitted, X) < 1e-9
    assert to_dict(online)["object"]["state"].keys() == vars(fitted).keys() & {
        *to_dict(fitted)["object"]["state"]
    }


@pytest.mark.parametrize("n_samples", [300, 1500])
@every_calibrator
def test_copies_continue(calibrator, n_samples):
    """A pickle and a file keep what is needed, before and after the expansion."""
    X, y = draw(2000)
    online = update(calibrator, softmax(X[:n_samples], axis=1), y[:n_samples], 150)
    copies = [
        pickle.loads(pickle.dumps(online)),
        from_dict(json.loads(json.dumps(to_dict(online), allow_nan=False))),
    ]
    with pytest.raises(NotFittedError):
        clone(online).predict_proba(softmax(X, axis=1))
    for model in (online, *copies):
        model.partial_fit(softmax(X[n_samples:], axis=1), y[n_samples:], half_life=900)
        assert distance(model, online, softmax(X, axis=1)) == 0


def test_memory_does_not_depend_on_the_number_of_samples():
    X, y = draw(4000)
    sizes = [
        len(pickle.dumps(update(PlattScaling(), softmax(X[:n], axis=1), y[:n], 500)))
        for n in (1500, 4000)
    ]
    assert sizes[0] == sizes[1]


def test_no_errors_are_needed_for_a_batch_of_zero_weights():
    X, y = draw(1200)
    online = update(TemperatureScaling(from_logits=True), X, y, 400)
    before = vars(online).copy()
    online.partial_fit(X, y, np.zeros(len(y)), half_life=10)
    assert vars(online) == before


def _online():
    X, y = draw(1100)
    return TemperatureScaling().partial_fit(softmax(X, axis=1), y, classes=range(3))


PROBA, CODES = softmax(draw(6)[0], axis=1), np.array([0, 1, 2, 0, 1, 2])
BAD = {
    "no classes": (
        lambda: PlattScaling().partial_fit(PROBA, CODES),
        "classes must be passed on the first call to partial_fit, got None. Pass",
    ),
    "number of classes": (
        lambda: PlattScaling().partial_fit(PROBA, CODES, classes=[0, 1]),
        "classes must contain 3 distinct labels, one for each column of X, got .0, 1.",
    ),
    "equal classes": (
        lambda: PlattScaling().partial_fit(PROBA, CODES, classes=[0, 1, 1]),
        "classes must contain 3 distinct labels",
    ),
    "classes of another type": (
        lambda: PlattScaling().partial_fit(PROBA, CODES, classes=[{}, {}, {}]),
        "classes must contain labels of one type .* got dict",
    ),
    "other classes": (
        lambda: _online().partial_fit(PROBA, CODES, classes=[1, 2, 3]),
        r"classes must be the same as on the first call .*\[0, 1, 2\], got \[1, 2, 3\]",
    ),
    "after fit": (
        lambda: (
            TemperatureScaling()
            .fit(*_many())
            .partial_fit(PROBA, CODES, classes=range(3))
        ),
        "partial_fit cannot continue a calibrator that was fitted by fit, which does",
    ),
    "new label": (
        lambda: _online().partial_fit(PROBA, CODES + 1),
        r"y must contain only the labels \[0, 1, 2\], got also \[3\]",
    ),
    "number of columns": (
        lambda: _online().partial_fit(PROBA[:, :2], CODES), "X has 2 features, but",
    ),
    "length of y": (
        lambda: _online().partial_fit(PROBA, CODES[:2]), "inconsistent numbers of sam",
    ),
    "no samples": (
        lambda: _online().partial_fit(PROBA[:0], CODES[:0]), "0 sample.* minimum of 1",
    ),
    "nan": (lambda: _online().partial_fit(PROBA * np.nan, CODES), "X contains NaN"),
    "not probabilities": (
        lambda: _online().partial_fit(9 * PROBA, CODES), "set from_logits=True",
    ),
    "negative weights": (
        lambda: _online().partial_fit(PROBA, CODES, -np.ones(6)),
        "sample_weight must be non-negative",
    ),
    "zero weights": (
        lambda: PlattScaling().partial_fit(PROBA, CODES, 0 * CODES, classes=range(3)),
        "sample_weight must not be zero for all samples of the first call",
    ),
    "zero half-life": (
        lambda: _online().partial_fit(PROBA, CODES, half_life=0),
        "half_life must be a positive number of samples, got 0. Use None",
    ),
    "half-life in words": (
        lambda: _online().partial_fit(PROBA, CODES, half_life="1 day"),
        "half_life must be a positive number of samples, got '1 day'",
    ),
    "objective": (
        lambda: TemperatureScaling(objective="ece").partial_fit(PROBA, CODES),
        'objective must be "nll" for partial_fit, got \'ece\'. Call fit',
    ),
    "penalty": (
        lambda: VectorScaling(penalty="l2").partial_fit(PROBA, CODES),
        'penalty must be "none" for partial_fit, got \'l2\'. Call fit',
    ),
    "other settings": (
        lambda: (
            update(BetaCalibration(), *_many(), 1100)
            .set_params(parameters="ab")
            .partial_fit(PROBA, CODES)
        ),
        r"not change after the first call to partial_fit, got .*'ab'} after .*'abm'}\.",
    ),
    "other settings after loading": (
        lambda: (
            from_dict(to_dict(_online()))
            .set_params(from_logits=True)
            .partial_fit(PROBA, CODES)
        ),
        "got {'from_logits': True, .*} after {'from_logits': False, .*}. Use sklearn",
    ),
    "other form": (
        lambda: _online().set_params(from_logits=True).partial_fit(PROBA, CODES),
        "got {'from_logits': True, .*} after {'from_logits': False, .*}. Use sklearn",
    ),
    "missing weights": (
        lambda: _online().partial_fit(PROBA, CODES, [None] * 6),
        "Input sample_weight contains NaN",
    ),
}  # fmt: skip


def _many():
    X, y = draw(1100)
    return softmax(X, axis=1), y


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    call, message = BAD[case]
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_a_failed_call_changes_nothing():
    online, new = _online(), TemperatureScaling()
    before = vars(online).copy()
    with pytest.raises(ValueError, match="got also"):
        online.partial_fit(PROBA, CODES + 1, half_life=5)
    assert vars(online) == before
    with pytest.raises(ValueError, match="got also"):
        new.partial_fit(PROBA, CODES + 1, classes=range(3))
    assert vars(new).keys() == {*new.get_params()}


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state["_past_loss"].pop("target"),
        lambda state: state.pop("_past_loss"),
        lambda state: state.update(_past_samples=state["_past_loss"]),
        lambda state: state["_past_counts"].update(values=[1.0, 2.0, -1.0]),
    ],
)
def test_invalid_files_are_refused(change):
    document = to_dict(_online())
    change(document["object"]["state"])
    with pytest.raises(ValueError, match="_past"):
        from_dict(document)


def test_files_with_other_parameters_are_refused():
    online = update(BetaCalibration(), *_many(), 1100)
    document = to_dict(online)
    document["object"]["params"]["parameters"] = "ab"
    with pytest.raises(ValueError, match=r"_past_loss\.curvature must have 2 v"):
        from_dict(document)


def test_files_with_negative_probabilities_are_refused():
    document = to_dict(PlattScaling().partial_fit(PROBA, CODES, classes=range(3)))
    document["object"]["state"]["_past_samples"]["scores"]["values"][0] = -0.5
    with pytest.raises(ValueError, match=r"_past_samples\.scores"):
        from_dict(document)


def test_logits_that_look_like_probabilities():
    with pytest.warns(UserWarning, match="look like probabilities"):
        TemperatureScaling(from_logits=True).partial_fit(PROBA, CODES, classes=range(3))
