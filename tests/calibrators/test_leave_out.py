"""Fits without a part of the samples, which weigh the calibrators of an average."""

import numpy as np
import pytest
from scipy.special import logit
from sklearn.base import clone

from sklearn_calib._numerics.sample_blocks import array_blocks
from sklearn_calib.calibrators import (
    AutoCalibrator,
    Calibrator,
    DirichletCalibrator,
    MatrixScaling,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    VectorScaling,
    get_calibrator,
    get_calibrator_names,
)
from sklearn_calib.calibrators._combined import auto as auto_calibrator

REGISTERED = [get_calibrator(name)() for name in get_calibrator_names()]
SETTINGS = [
    DirichletCalibrator(penalty="empirical_bayes"),
    MatrixScaling(penalty="empirical_bayes"),
    StructuredMatrixScaling(lambd=1.0),
    StructuredVectorScaling(lambd=1.0),
    VectorScaling(penalty="empirical_bayes"),
]
# The others are fitted again to the other samples.
TAKE_A_STEP = [
    each
    for each in [*REGISTERED, *SETTINGS]
    if type(each)._leave_out is not Calibrator._leave_out
]


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("calibrator", TAKE_A_STEP, ids=repr)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_step_is_close_to_the_fit_to_the_others(calibrator, n_classes, make_logits):
    """It leaves less than a quarter of the distance."""
    logits, y = make_logits(500, n_classes)
    fitted = clone(calibrator).set_params(from_logits=True).fit(2 * logits, y)
    fold = np.arange(500) % 5
    parts = [array_blocks(2 * logits[fold == k], y[fold == k]) for k in range(5)]
    others = [array_blocks(2 * logits[fold != k], y[fold != k]) for k in range(5)]
    distance = left = 0.0
    for k, found in enumerate(fitted._leave_out(parts, others.__getitem__)):
        exact = clone(fitted)
        exact._take_start(fitted)
        exact._fit_again(others[k], fitted)
        before, after, wanted = (
            logit(each._calibrate(2 * logits[fold == k]))
            for each in (fitted, found, exact)
        )
        distance += np.abs(before - wanted).mean()
        left += np.abs(after - wanted).mean()
    assert left <= distance / 4


def test_an_average_takes_steps_with_many_errors(make_logits, monkeypatch):
    logits, y = make_logits(500, 3)
    few = AutoCalibrator(from_logits=True).fit(2 * logits[:200], y[:200])
    many = AutoCalibrator(from_logits=True).fit(2 * logits, y)
    assert few.n_errors_ < 100 < many.n_errors_
    monkeypatch.setattr(auto_calibrator, "ERRORS_FOR_STEPS", np.inf)
    few_again = AutoCalibrator(from_logits=True).fit(2 * logits[:200], y[:200])
    many_again = AutoCalibrator(from_logits=True).fit(2 * logits, y)
    np.testing.assert_array_equal(few.log_losses_, few_again.log_losses_)
    assert (many.log_losses_ != many_again.log_losses_).any()
    np.testing.assert_allclose(many.log_losses_, many_again.log_losses_, rtol=2e-3)
