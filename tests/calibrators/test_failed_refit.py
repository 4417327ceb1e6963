"""A calibrator is unchanged if its fit fails."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn.exceptions import NotFittedError

from sklearn_calib.calibrators import PerLabelCalibrator, TemperatureScaling

# With few samples, calibrators warn of a bound or of the end of a grid.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
EXCUSED = {}

WIDER = pd.DataFrame(
    softmax(np.eye(5)[np.arange(40) % 5], axis=1), columns=list("abcde")
)
NAMELESS = WIDER.to_numpy()
LABELS = np.array(list("ABCDE"))[np.arange(40) % 5]
FAILURES = {
    "weights": ((WIDER, LABELS, -np.ones(40)), {}),
    "number of weights": ((NAMELESS, LABELS, np.ones(3)), {}),
    "labels": ((NAMELESS, LABELS), {"labels": [1, 2]}),
    "number of labels": ((NAMELESS, LABELS[:7]), {}),
    "kinds of labels": ((NAMELESS, ["a", 1] * 20), {}),
    "no probabilities": ((NAMELESS + 7, LABELS), {}),
}


def state_of(estimator):
    """Return the attributes, which must stay the same objects."""
    return {name: id(value) for name, value in vars(estimator).items()}


def fail(calibrator, monkeypatch, how):
    """Check that a fit raises an error."""
    if how in FAILURES:
        arguments, options = FAILURES[how]
        with pytest.raises((TypeError, ValueError)):
            calibrator.fit(*arguments, **options)
        return
    error = {"interruption": KeyboardInterrupt, "memory": MemoryError}[how]

    def _fit(self, *_):
        self.half_done_ = True
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(type(calibrator), "_fit", _fit)
        with pytest.raises(error):
            calibrator.fit(WIDER, LABELS)


def test_a_failed_fit_changes_nothing(calibrator, make_logits, fresh, monkeypatch):
    logits, y = make_logits(n_samples=60)
    X = softmax(logits, axis=1)
    ways = [*FAILURES, "interruption", "memory"]
    calibrator = fresh(calibrator)
    for how in ways:
        fail(calibrator, monkeypatch, how)
        with pytest.raises(NotFittedError):
            calibrator.predict(X)
    calibrator.fit(X, np.array(list("abcd"))[y])
    before = state_of(calibrator)
    proba, labels = calibrator.predict_proba(X), calibrator.predict(X)
    for how in ways:
        fail(calibrator, monkeypatch, how)
        assert state_of(calibrator) == before, how
        np.testing.assert_array_equal(calibrator.predict_proba(X), proba)
        np.testing.assert_array_equal(calibrator.predict(X), labels)


def test_bad_parameters_leave_what_was_learned(calibrator, make_logits, fresh):
    logits, y = make_logits(n_samples=60)
    X = softmax(logits, axis=1)
    calibrator = fresh(calibrator).fit(X, y)
    proba = calibrator.predict_proba(X)
    calibrator.set_params(from_logits="yes")
    with pytest.raises(ValueError, match="from_logits"):
        calibrator.fit(WIDER, LABELS)
    calibrator.set_params(from_logits=False)
    np.testing.assert_array_equal(calibrator.predict_proba(X), proba)


def test_per_label(make_logits):
    X = softmax(make_logits(n_samples=50)[0], axis=1)
    y = (X > 0.3).astype(int)
    calibrator = PerLabelCalibrator(TemperatureScaling())
    with pytest.raises(ValueError, match="y must"):
        calibrator.fit(WIDER, y)
    with pytest.raises(NotFittedError):
        calibrator.predict(X)
    before = state_of(calibrator.fit(X, y))
    proba = calibrator.predict_proba(X)
    for arguments in [(WIDER, y), (WIDER, np.eye(5)[np.arange(40) % 5], -np.ones(40))]:
        with pytest.raises(ValueError, match=r"y must|sample_weight must"):
            calibrator.fit(*arguments)
        assert state_of(calibrator) == before
        np.testing.assert_array_equal(calibrator.predict_proba(X), proba)
