"""Samples ranked by confidence, with their losses: the stuff of risk and coverage."""

import numpy as np

from sklearn_calib._core.confidence import check_confidence, get_confidence, top_label
from sklearn_calib._core.validation import StrOptions, check_proba
from sklearn_calib.metrics._targets import TARGETS, as_columns, check_targets


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
