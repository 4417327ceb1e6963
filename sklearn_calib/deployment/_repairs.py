"""Repairs of predictions that are no longer calibrated, judged by cross-validation."""

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold

from sklearn_calib._numerics.sample_blocks import array_blocks
from sklearn_calib._numerics.softmax import softmax
from sklearn_calib._solvers.class_offsets import fit_offsets
from sklearn_calib._validation.fit_warnings import without_warnings
from sklearn_calib._validation.types import Floats, Ints
from sklearn_calib.calibrators import (
    JointLogOddsSplineCalibration,
    LogOddsSplineCalibration,
    TemperatureScaling,
    TopLabelCalibrator,
)

N_FOLDS = 5
TINY = np.finfo(np.float64).tiny
# Repairs of the probabilities that a mode monitors.
CURVES = {
    "top_label": TopLabelCalibrator(),
    "positive": LogOddsSplineCalibration(),
    "classwise": JointLogOddsSplineCalibration(),
}


def choose_repair(
    proba: Floats, codes: Ints, advice: str, mode: str
) -> tuple[str, dict[str, float]]:
    """Return the advice, or "refit" if a curve predicts better, and their log losses.

    The log losses are of samples in folds that the repair was not fitted to. "refit" is
    better if it is lower by more than a standard error of the difference.
    """
    if len(codes) < N_FOLDS:
        raise ValueError(
            f"y_true must contain at least {N_FOLDS} samples, got {len(codes)}. Pass "
            "all samples since the change."
        )
    losses = {}
    for repair in (advice, "refit"):
        losses[repair] = np.empty(len(codes))
        for fit, new in KFold(N_FOLDS, shuffle=True, random_state=0).split(proba):
            repaired = predict_repaired(
                repair, mode, proba[fit], codes[fit], proba[new]
            )
            true = repaired[np.arange(len(new)), codes[new]]
            losses[repair][new] = -np.log(np.maximum(true, TINY))
    gain = losses[advice] - losses["refit"]
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    # Equal predictions differ by rounding errors.
    is_better = gain.mean() > error + 1e-9
    means = {repair: float(loss.mean()) for repair, loss in losses.items()}
    return "refit" if is_better else advice, means


def predict_repaired(
    repair: str, mode: str, proba: Floats, codes: Ints, new: Floats
) -> Floats:
    """Return the new predictions after a repair that is fitted to the others."""
    n_classes = proba.shape[1]
    if repair == "priors":
        offset = fit_offsets(array_blocks(proba, codes))
        return softmax(np.log(np.maximum(new, TINY)) + offset)
    is_temperature = repair == "temperature"
    calibrator = clone(TemperatureScaling() if is_temperature else CURVES[mode])
    # Too few errors for a reliable fit are seen in the log loss.
    with without_warnings():
        calibrator.fit(proba, codes, labels=np.arange(n_classes))
    return calibrator.predict_proba(new)
