"""Fits inside of other fits do not warn, and leave the filters of the process alone."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest
from sklearn.exceptions import UndefinedMetricWarning

from sklearn_calib._validation.fit_warnings import without_warnings
from sklearn_calib.calibrators import (
    AutoCalibrator,
    PerGroupCalibrator,
    TemperatureScaling,
    TopLabelCalibrator,
)
from sklearn_calib.metrics import bootstrap_interval, variational_calibration_error

EXCUSED = {}
SECONDS = 10


class OfUser(TemperatureScaling):
    """A calibrator that warns, and calls a function, such as one that waits."""

    _parameter_constraints = {
        **TemperatureScaling._parameter_constraints,
        "call": [callable],
    }

    def __init__(self, call=lambda: None, *, from_logits=False):
        super().__init__(from_logits=from_logits)
        self.call = call

    def _fit(self, data):
        warnings.warn("y contains no samples, says a user", UserWarning, stacklevel=1)
        self.call()
        super()._fit(data)


def brier(y_true, y_proba, sample_weight=None):
    """Warn for samples that were drawn."""
    if sample_weight is not None:
        warnings.warn("undefined, says a user", UndefinedMetricWarning, stacklevel=1)
    return np.average((y_proba - y_true) ** 2, weights=sample_weight)


def test_inner_fits_do_not_warn(calibrator, fresh):
    """There are no errors, an absent class and separable samples."""
    y = np.arange(40) % 2
    X = 0.9 * np.eye(3)[y] + 0.1 / 3
    with without_warnings():
        fresh(calibrator, is_whole=True).fit(X, y, labels=range(3))


@pytest.mark.parametrize(
    "fit",
    [
        AutoCalibrator([OfUser()], cv=2).fit,
        TopLabelCalibrator(OfUser()).fit,
        lambda X, y: PerGroupCalibrator(OfUser()).fit(X, y, groups=y),
        lambda X, y: variational_calibration_error(y, X, recalibration=OfUser(), cv=2),
        lambda X, y: bootstrap_interval(brier, y, X[:, 1], n_resamples=2),
    ],
)
def test_warnings_of_users_are_issued(fit, overconfident):
    with pytest.warns(UserWarning, match="says a user"):
        fit(*overconfident(2))


@pytest.mark.filterwarnings("ignore:.* says a user")
def test_two_threads_leave_the_filters_alone(overconfident):
    """The first fit ends inside of the second one, which began inside of the first."""
    has_begun, has_ended = [Event(), Event()], Event()

    def in_first():
        has_begun[0].set()
        has_begun[1].wait(SECONDS)

    def in_second():
        has_begun[1].set()
        has_ended.wait(SECONDS)

    def submit(call):
        model = AutoCalibrator([OfUser(call)], cv=2)
        return pool.submit(model.fit, *overconfident())

    filters = warnings.filters.copy()
    with ThreadPoolExecutor(2) as pool:
        first = submit(in_first)
        assert has_begun[0].wait(SECONDS)
        second = submit(in_second)
        first.result()
        has_ended.set()
        second.result()
    assert warnings.filters == filters
