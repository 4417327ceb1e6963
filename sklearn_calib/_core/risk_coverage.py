"""Risk and coverage of samples ranked by confidence, and areas under their curve."""

import numpy as np
from scipy.integrate import trapezoid
from scipy.special import digamma, gammaln

from sklearn_calib._core.confidence import check_confidence, get_confidence, top_label
from sklearn_calib._core.inputs import TARGETS, as_columns, check_targets
from sklearn_calib._core.validation import StrOptions, check_proba


def _zero_one(codes, proba):
    """Return 1 for a wrong prediction, 0 for a right one."""
    return (top_label(proba)[1] != codes).astype(np.float64)


def _log(codes, proba):
    """Return minus the logarithm of the true class's probability."""
    true = proba[np.arange(len(proba)), codes].astype(np.float64)
    # A probability of zero has the loss that scikit-learn's log_loss gives it.
    return -np.log(np.maximum(true, np.finfo(np.float64).eps))


LOSSES = {"log": _log, "zero_one": _zero_one}

# What `validate_params` checks, for the parameters that these metrics share.
RANKING = {**TARGETS, "confidence": [str, callable, "array-like"]}
LOSS = {"loss": [StrOptions(set(LOSSES)), callable]}


def score_samples(y_true, y_proba, confidence, loss, labels, sample_weight):
    """Return the confidence, the loss and the weight of each sample, all checked."""
    proba, codes, weight = check_targets(y_true, y_proba, labels, sample_weight)
    proba = check_proba(as_columns(proba))
    if isinstance(confidence, str) and (confidence, loss) == ("msp", "zero_one"):
        scores, predicted = top_label(proba)  # of the largest probabilities, once
        return scores, (predicted != codes).astype(np.float64), weight
    scores = check_confidence(_confidence_of(confidence, proba), len(proba))
    return scores, _losses_of(loss, codes, proba), weight


def _confidence_of(confidence, proba):
    """Return the confidence of each sample; an array says it itself."""
    if not (isinstance(confidence, str) or callable(confidence)):
        return confidence
    if isinstance(confidence, str) and confidence == "max_logit":
        raise ValueError(
            'confidence="max_logit" must be taken from logits, got probabilities. Pass '
            "the numbers themselves: confidence=logits.max(axis=1)."
        )
    return get_confidence(confidence)(proba)


def _losses_of(loss, codes, proba):
    """Return the loss of each sample."""
    if not callable(loss):
        return LOSSES[loss](codes, proba)
    losses = np.asarray(loss(codes, proba), dtype=np.float64)
    if losses.shape != (len(proba),) or not np.isfinite(losses).all():
        raise ValueError(
            "loss must return one finite number per sample, of shape "
            f"({len(proba)},), got shape {losses.shape} with "
            f"{np.count_nonzero(~np.isfinite(losses))} that are not finite. Do not "
            "average over the samples, and bound what is infinite."
        )
    return losses


def group_by_confidence(scores, losses, weight):
    """Return weight, summed loss and confidence of samples of equal confidence.

    The most confident come first. Samples without weight are left out.
    """
    if weight is not None:
        scores, losses = scores[weight > 0], (losses * weight)[weight > 0]
        weight = weight[weight > 0]
    order = np.argsort(-scores)
    scores = scores[order]
    first = np.flatnonzero(np.append(True, scores[1:] != scores[:-1]))
    mass = np.ones(len(scores)) if weight is None else weight[order]
    return (
        np.add.reduceat(mass, first),
        np.add.reduceat(losses[order], first),
        scores[first],
    )


def rank(y_true, y_proba, confidence, loss, labels, sample_weight):
    """Return weight, summed loss and confidence of each group, from what users pass."""
    return group_by_confidence(
        *score_samples(y_true, y_proba, confidence, loss, labels, sample_weight)
    )


def curve(mass, total_loss):
    """Return the coverage and the risk after each group of equal confidence."""
    answered = np.cumsum(mass)
    return answered / answered[-1], np.cumsum(total_loss) / answered


def _mean_area(mass, total_loss):
    """Return the mean over k of the mean loss of the first k, ties in any order."""
    after = _counts(mass)
    before, loss_before = after - mass, np.cumsum(total_loss) - total_loss
    # On average over the orders of a group, the mean loss of the first k within it is
    # (loss_before + (k - before) mean) / k = mean + (loss_before - before mean) / k.
    # The digamma function sums 1 / k, for fractional weights too.
    mean = total_loss / mass
    reciprocals = digamma(after + 1) - digamma(before + 1)
    area = total_loss + (loss_before - before * mean) * reciprocals
    return float(area.sum() / after[-1])


def _population_area(mass, total_loss):
    """Return the mean of log((n + 1) / k) times the k-th loss, ties in any order."""
    after = _counts(mass)
    # The logarithm of the gamma function sums log k, for fractional weights too.
    logarithms = np.diff(gammaln(after + 1), prepend=0.0)
    weight = np.log(after[-1] + 1) - logarithms / mass
    return float((weight * total_loss).sum() / after[-1])


def _trapezoid_area(mass, total_loss):
    """Return the area under straight lines, level up to the first threshold."""
    coverage, risk = curve(mass, total_loss)
    return float(trapezoid(np.append(risk[0], risk), np.append(0.0, coverage)))


def _counts(mass):
    """Return the running sum of weights, which count repetitions."""
    after = np.cumsum(mass)
    if after[-1] < 1:
        raise ValueError(
            "sample_weight must sum to at least 1, for it counts repetitions, got a "
            f"sum of {after[-1]:.3g}. Multiply the weights by n_samples / sum."
        )
    return after


ESTIMATORS = {
    # The harmonic weight of the k-th loss is the sum of 1 / j for j >= k: how often and
    # how heavily the loss is in the means of the first j.
    "harmonic": _mean_area,
    "mean": _mean_area,
    "population": _population_area,
    "trapezoid": _trapezoid_area,
}
