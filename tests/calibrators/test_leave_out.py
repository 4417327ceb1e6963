"""Fits without a part of the samples, which weigh the calibrators of an average."""

import numpy as np
import pytest
from scipy.special import logit
from sklearn.base import clone

from sklearn_calib._numerics.sample_blocks import array_blocks
from sklearn_calib.calibrators import (
    AutoCalibrator,
    DirichletCalibrator,
    MatrixScaling,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    VectorScaling,
    get_calibrator,
    get_calibrator_names,
)
from sklearn_calib.calibrators._combined import auto as auto_calibrator
from sklearn_calib.calibrators._combined.auto import leave_out

REGISTERED = [get_calibrator(name)() for name in get_calibrator_names()]
TAKE_A_STEP = [
    *(model for model in REGISTERED if getattr(model, "_uses_empirical_bayes", False)),
    DirichletCalibrator(penalty="empirical_bayes"),
    MatrixScaling(penalty="empirical_bayes"),
    StructuredMatrixScaling(lambd=1.0),
    StructuredVectorScaling(lambd=1.0),
    VectorScaling(penalty="empirical_bayes"),
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
    steps = leave_out(fitted, parts, others.__getitem__, may_step=True)
    fits = leave_out(fitted, parts, others.__getitem__, may_step=False)
    for k, (found, exact) in enumerate(zip(steps, fits, strict=True)):
        before, after, wanted = (
            logit(model._calibrate(2 * logits[fold == k]))
            for model in (fitted, found, exact)
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


class Doubled:
    """Part of a calibrator of a user, with a `_fit` of its own."""

    def _fit(self, data):
        super()._fit(data)
        self.coef_ = 2 * self.coef_


class DoubledScaling(Doubled, StructuredVectorScaling):
    """Takes no steps, which would not double anything."""


def test_a_fit_of_a_user_is_called_again(make_logits):
    logits, y = make_logits(500, 3)
    fitted = DoubledScaling(from_logits=True).fit(logits, y)
    data = array_blocks(logits, y)
    [found] = leave_out(fitted, [data], lambda _: data, may_step=True)
    np.testing.assert_array_equal(found.coef_, fitted.coef_)
