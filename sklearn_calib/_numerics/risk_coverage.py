"""Risk-coverage curves of samples ranked by confidence, and the areas under them."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import trapezoid
from scipy.special import digamma, gammaln

from sklearn_calib._numerics.binning import sums_by_value
from sklearn_calib._numerics.confidence import (
    FROM_LOGITS,
    check_confidence,
    get_confidence,
    needs_logits,
)
from sklearn_calib._validation.declarations import TARGETS, StrOptions
from sklearn_calib._validation.samples import read_samples, top_label
from sklearn_calib._validation.types import (
    Array,
    Bools,
    Confidence,
    Floats,
    Ints,
    Weights,
)


def _zero_one(codes: Ints, proba: Floats) -> Bools:
    """Return the zero-one loss: whether each prediction is incorrect."""
    return top_label(proba)[1] != codes


def _log(codes: Ints, proba: Floats) -> Floats:
    """Return the log loss of each sample."""
    true = proba[np.arange(len(proba)), codes].astype(np.float64)
    # Probabilities of zero are clipped as in scikit-learn's log_loss.
    return -np.log(np.maximum(true, np.finfo(np.float64).eps))


Loss: TypeAlias = str | Callable[[Ints, Floats], ArrayLike]

# Confidence and loss that are computed in one pass, and on other devices.
DEFAULTS = ("msp", "zero_one")

LOSSES: dict[str, Callable[..., Array]] = {"log": _log, "zero_one": _zero_one}

# Constraints of the parameters that these metrics share, for `validate_params`.
RANKING = {**TARGETS, "confidence": [str, callable, "array-like"]}
LOSS = {"loss": [StrOptions(set(LOSSES)), callable]}


def score_samples(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    confidence: Confidence,
    loss: Loss,
    labels: ArrayLike | None,
    sample_weight: ArrayLike | None,
    pos_label: Any,
) -> tuple[Floats, Array, Weights]:
    """Return the confidence, the loss and the weight of each sample, validated."""
    is_default = isinstance(confidence, str) and (confidence, loss) == DEFAULTS
    mode = "top_label" if is_default else "canonical"
    data = y_true, y_proba, labels, sample_weight, mode, pos_label
    samples = read_samples(*data, is_symmetric=True)
    if is_default:
        scores, correct, weight = samples.column()
        return scores, ~correct, weight
    proba, codes, weight = samples.proba()
    scores = check_confidence(_confidence_of(confidence, proba), len(proba))
    return scores, _losses_of(loss, codes, proba), weight


def _confidence_of(confidence: Confidence, proba: Floats) -> Any:
    """Return the confidence scores of the samples; an array contains them directly."""
    if not (isinstance(confidence, str) or callable(confidence)):
        return confidence
    if isinstance(confidence, str) and needs_logits(confidence):
        raise ValueError(
            f'confidence="{confidence}" must be computed from logits, got '
            f"probabilities. Pass the scores as an array: {FROM_LOGITS[confidence]}."
        )
    return get_confidence(confidence)(proba)


def _losses_of(loss: Loss, codes: Ints, proba: Floats) -> Array:
    """Return the loss of each sample."""
    if not callable(loss):
        return LOSSES[loss](codes, proba)
    losses = np.asarray(loss(codes, proba), dtype=np.float64)
    if losses.shape != (len(proba),) or not np.isfinite(losses).all():
        raise ValueError(
            "loss must return one finite number per sample, of shape "
            f"({len(proba)},), got shape {losses.shape} with "
            f"{np.count_nonzero(~np.isfinite(losses))} values that are not finite. Do "
            "not average over the samples, and clip infinite values."
        )
    return losses


def group_by_confidence(
    scores: Floats, losses: Array, weight: Weights
) -> tuple[Floats, Floats, Floats]:
    """Return weight, summed loss and confidence of groups of equal confidence.

    The most confident group comes first. Samples with zero weight are ignored.
    """
    value, mass, total_loss = sums_by_value(scores, losses, weight)
    return mass[::-1], total_loss[::-1], value[::-1]


def rank(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    confidence: Confidence,
    loss: Loss,
    labels: ArrayLike | None,
    sample_weight: ArrayLike | None,
    pos_label: Any,
) -> tuple[Floats, Floats, Floats]:
    """Return `group_by_confidence` for the arguments of a metric."""
    return group_by_confidence(
        *score_samples(
            y_true, y_proba, confidence, loss, labels, sample_weight, pos_label
        )
    )


def curve(mass: Floats, total_loss: Floats) -> tuple[Floats, Floats]:
    """Return coverage and risk after each group of equal confidence."""
    accepted = np.cumsum(mass)
    return accepted / accepted[-1], np.cumsum(total_loss) / accepted


def _mean_area(mass: Floats, total_loss: Floats) -> float:
    """Return the mean over k of the mean loss of the first k, averaged over ties."""
    after = _counts(mass)
    before, loss_before = after - mass, np.cumsum(total_loss) - total_loss
    # For k within a group, the mean loss of the first k, averaged over the orders of
    # the group, is (loss_before + (k - before) mean) / k = mean + (loss_before - before
    # mean) / k. Differences of the digamma function are sums of 1 / k, also for
    # fractional weights.
    mean = total_loss / mass
    reciprocals = np.diff(digamma(after + 1), prepend=digamma(1.0))
    area = total_loss + (loss_before - before * mean) * reciprocals
    return float(area.sum() / after[-1])


def _population_area(mass: Floats, total_loss: Floats) -> float:
    """Return the mean of log((n + 1) / k) times the k-th loss, averaged over ties."""
    after = _counts(mass)
    # Differences of the log-gamma function are sums of log k, also for fractional
    # weights.
    logarithms = np.diff(gammaln(after + 1), prepend=0.0)
    weight = np.log(after[-1] + 1) - logarithms / mass
    return float((weight * total_loss).sum() / after[-1])


def _trapezoid_area(mass: Floats, total_loss: Floats) -> float:
    """Return the area by the trapezoidal rule, constant up to the first threshold."""
    coverage, risk = curve(mass, total_loss)
    return float(trapezoid(np.append(risk[0], risk), np.append(0.0, coverage)))


def _counts(mass: Floats) -> Floats:
    """Return the cumulated weights, which count samples."""
    after = np.cumsum(mass)
    if after[-1] < 1:
        raise ValueError(
            "sample_weight must sum to at least 1, because weights count samples, "
            f"got a sum of {after[-1]:.3g}. Multiply the weights by n_samples / sum."
        )
    return after


ESTIMATORS = {
    # The harmonic weight of the k-th loss is the sum of 1 / j for j >= k, its total
    # weight in the means of the first j losses.
    "harmonic": _mean_area,
    "mean": _mean_area,
    "population": _population_area,
    "trapezoid": _trapezoid_area,
}
