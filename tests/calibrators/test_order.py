"""Common tests of the order of calibrated probabilities, for inputs from 0 to 1."""

import numpy as np
import pytest
from scipy.special import softmax

from sklearn_calib._numerics.softmax import lift_zeros
from sklearn_calib.calibrators import get_calibrator, get_calibrator_names

KEEP_ORDER = [
    get_calibrator(name)
    for name in get_calibrator_names()
    if get_calibrator(name).preserves_argmax
]
# Calibrators to which a test does not apply, with the reason; see conftest.py.
MAY_FALL = "frequencies of neighbouring bins may decrease"
EXCUSED = {
    "test_of_two_classes_a_larger_probability_gets_no_smaller_one": {
        "BBQ": MAY_FALL,
        "ENIR": "penalises decreases, but does not exclude them",
        "HistogramBinning": MAY_FALL,
        "SplineCalibration": "its slope may be negative",
    }
}
# Total probability of the other classes, from the highest to the lowest confidence.
REST = np.concatenate([
    [0, 5e-324, 1e-300, 1e-30, 1e-20, 1e-17, 3e-16, 1e-15, 1e-12, 1e-9, 1e-7, 1e-6],
    [1e-5, 1e-4, 5e-4, 9.9e-4, 1e-3, 1.01e-3, 2e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4],
])  # fmt: skip
# With few samples, calibrators warn of a bound.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def votes(proba):
    """Return probabilities in tenths, as votes of ten trees: many are zero."""
    ends = np.round(10 * proba.cumsum(axis=1))
    return np.diff(ends, prepend=0, axis=1) / 10


# The data of `fit` determine the replacement of zeros.
FITS = {
    "no zeros": lambda proba: proba,
    "zeros of votes": votes,
    "nothing but zeros and ones": lambda proba: np.eye(proba.shape[1])[
        proba.argmax(axis=1)
    ],
    "zeros of underflow": lambda proba: softmax(300 * np.log(proba), axis=1),
}
all_that_keep_it = pytest.mark.parametrize("keeps_order", KEEP_ORDER)
all_fits = pytest.mark.parametrize("see", FITS.values(), ids=list(FITS))
dtypes = pytest.mark.parametrize(
    "dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.slow)]
)


def fitted_to(calibrator, see, make_logits, dtype, n_classes):
    """Return a calibrator that was fitted to overconfident predictions."""
    logits, y = make_logits({2: 400, 1000: 20}.get(n_classes, 100), n_classes)
    X = see(softmax(2 * logits, axis=1)).astype(dtype)
    return calibrator.fit(X, y, labels=np.arange(n_classes))


def assert_rises(values, dtype):
    rounding = 1e-12 if dtype is np.float64 else 1e-6
    assert (np.diff(values, axis=-1) >= -rounding * values[..., 1:]).all()


def test_order_preserving_maps_are_tried():
    assert len(KEEP_ORDER) >= 5


@dtypes
@all_fits
@all_that_keep_it
def test_a_zero_comes_out_below_every_positive_probability(
    keeps_order, see, dtype, make_logits
):
    fitted = fitted_to(keeps_order(), see, make_logits, dtype, 6)
    smallest = float(np.finfo(dtype).tiny)
    small = np.array([0, smallest, 1e-30, 1e-16, 1e-12, 1e-9, 1e-6, 1e-4, 1e-2])
    pairs = np.column_stack([np.repeat(small, 9), np.tile(small, 9)])
    rows = np.column_stack([pairs, np.tile([0.0, 0.1, 0.2], (81, 1))])
    rows = np.column_stack([rows, 1 - rows.sum(axis=1)]).astype(dtype)
    order = rows.argsort(axis=1, kind="stable")
    proba = fitted.predict_proba(rows)
    assert_rises(np.take_along_axis(proba, order, axis=1), dtype)


@dtypes
@all_fits
@pytest.mark.parametrize("n_classes", [2, 3, 1000])
@all_that_keep_it
def test_a_sharper_row_gets_no_lower_confidence(
    keeps_order, n_classes, see, dtype, make_logits
):
    """The last rows are one-hot."""
    fitted = fitted_to(keeps_order(), see, make_logits, dtype, n_classes)
    others = np.tile(REST[:, None] / (n_classes - 1), n_classes - 1)
    rows = np.column_stack([1 - REST, others]).astype(dtype)
    proba = fitted.predict_proba(rows)
    assert_rises(proba[::-1, 0], dtype)
    assert_rises(proba[:, 1], dtype)


@dtypes
@all_fits
def test_of_two_classes_a_larger_probability_gets_no_smaller_one(
    calibrator, see, dtype, make_logits, fresh
):
    fitted = fitted_to(fresh(calibrator), see, make_logits, dtype, 2)
    smaller = np.column_stack([1 - REST, REST])
    rows = np.vstack([smaller, smaller[::-1, ::-1]]).astype(dtype)
    assert_rises(fitted.predict_proba(rows)[:, 1], dtype)


@dtypes
@all_fits
def test_what_every_map_is_given_is_in_order(
    calibrator, see, dtype, make_logits, fresh, monkeypatch
):
    """The order of the logarithms; the map may also decrease, and is not fitted."""
    monkeypatch.setattr(type(calibrator), "_fit", lambda *_: None)
    fitted = fitted_to(fresh(calibrator), see, make_logits, dtype, 3)
    others = REST[:, None] * [0.9, 0.1]
    rows = np.column_stack([1 - REST, others]).astype(dtype)
    logits = fitted._as_logits(rows)
    assert (np.diff(logits[:, 1:], axis=0) >= 0).all()
    assert (np.diff(logits[:, 0]) <= 0).all()
    # Half of the smallest of fit and more is told from half of that, and from a zero.
    zero = fitted.zero_replacement_
    lifted = lift_zeros(np.array([0, 0.01, 1, 2, 3], dtype=dtype) * dtype(zero), zero)
    np.testing.assert_allclose(lifted / zero, [1, 1.005, 1.5, 2, 3], rtol=1e-6)


def test_a_one_hot_row_of_many_classes(make_logits):
    """The 999 replaced zeros of a row must not exceed its one in total."""
    logits, y = make_logits(300, 1000)
    proba = softmax(logits, axis=1)
    fitted = get_calibrator("temperature")().fit(proba, y, labels=range(1000))
    rows = np.full((2, 1000), 1e-6 / 999)
    rows[0] = 0
    rows[:, 0] = 1, 1 - 1e-6
    one_hot, nearly = fitted.predict_proba(rows)[:, 0]
    assert one_hot >= nearly > 0
