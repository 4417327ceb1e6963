"""Fixtures of the common tests, which run for all calibrators.

In a module with a dict ``EXCUSED``, a test with an argument ``calibrator`` runs for
each calibrator of `CALIBRATORS`. ``EXCUSED`` maps the name of a test to the excluded
calibrators, given by class or setting, and to the reasons.
"""

from functools import cache

import numpy as np
import pytest
from scipy.special import softmax

from sklearn_calib.calibrators import (
    AutoCalibrator,
    BetaCalibration,
    DirichletCalibrator,
    FocalTemperatureScaling,
    HistogramBinning,
    IsotonicCalibration,
    JointBetaCalibration,
    MatrixScaling,
    MetaCal,
    StructuredMatrixScaling,
    TemperatureScaling,
    TopLabelCalibrator,
    VectorScaling,
    get_calibrator,
    get_calibrator_names,
)

DEFAULTS = [get_calibrator(name)() for name in get_calibrator_names()]
# All registered calibrators with their defaults, and parameters that often cause bugs.
CALIBRATORS = [
    *DEFAULTS,
    BetaCalibration(parameters="ab"),
    DirichletCalibrator(penalty="l2", lambd=1e-3),
    FocalTemperatureScaling(gamma=0.5),
    FocalTemperatureScaling(gamma=2),
    HistogramBinning(strategy="uniform"),
    IsotonicCalibration(centered=True),
    JointBetaCalibration(penalty="none"),
    MatrixScaling(penalty="odir", lambd=1e-3, mu=1e-3),
    MetaCal(threshold_fraction=0.1, random_state=0),
    StructuredMatrixScaling(lambd=1.0),
    TemperatureScaling(objective="ece"),
    TemperatureScaling(objective="ece", n_bins=1),
    TemperatureScaling(objective="ece", strategy="quantile", n_bins=4),
    TopLabelCalibrator(IsotonicCalibration()),
    VectorScaling(penalty="empirical_bayes"),
]
NAMED = [(c, {repr(c), type(c).__name__}) for c in CALIBRATORS]


def pytest_generate_tests(metafunc):
    if "calibrator" not in metafunc.fixturenames:
        return
    excused = getattr(metafunc.module, "EXCUSED", None)
    if excused is not None:
        reasons = excused.get(metafunc.function.__name__, {})
        picked = [c for c, names in NAMED if not names & {*reasons}]
        defaults = [c for c in picked if c in DEFAULTS]
        settings = [c for c in picked if c not in DEFAULTS]
        metafunc.config.hold(metafunc, "calibrator", defaults, settings)


@pytest.fixture(scope="session")
def make_logits():
    """Return a function that draws logits of the true model, and labels."""

    @cache
    def draw(n_samples, n_classes, seed):
        rng = np.random.default_rng(seed)
        logits = 1.5 * rng.normal(size=(n_samples, n_classes))
        return logits, (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)

    def make(n_samples=600, n_classes=4, seed=0):
        logits, y = draw(n_samples, n_classes, seed)
        return logits.copy(), y.copy()

    return make


@pytest.fixture(scope="session")
def fresh():
    """Return a function for a new calibrator with changed parameters.

    This takes a third of the time of `clone`. Nested calibrators are shared.
    AutoCalibrator gets two folds of two calibrators, or of its own if `is_whole`.
    """
    pair = [TemperatureScaling(), IsotonicCalibration()]

    def change(calibrator, *, is_whole=False, **params):
        if isinstance(calibrator, AutoCalibrator):
            params = {"cv": 2, "calibrators": None if is_whole else pair, **params}
        return type(calibrator)(**{**calibrator.get_params(deep=False), **params})

    return change


@pytest.fixture(scope="session")
def overconfident(make_logits):
    """Return a function for overconfident predictions, which are read-only."""

    @cache
    def make(n_classes=3, from_logits=False):
        logits, y = make_logits(100, n_classes)
        X = 3 * logits if from_logits else softmax(3 * logits, axis=1)
        X.flags.writeable = y.flags.writeable = False
        return X, y

    return make


@pytest.fixture(scope="session")
def fitted(fresh, overconfident):
    """Return a function for a calibrator that is fitted to overconfident predictions.

    It is fitted once, so tests must not change it.
    """

    @cache
    def fit(calibrator, n_classes=3, from_logits=False):
        model = fresh(calibrator, from_logits=from_logits)
        return model.fit(*overconfident(n_classes, from_logits))

    return fit


@pytest.fixture(scope="session")
def registered():
    """Return the class names and the settings of all calibrators."""
    return set().union(*(names for _, names in NAMED))
