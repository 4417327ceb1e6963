"""Confidence thresholds and the label for abstaining."""

import warnings
from math import ceil
from numbers import Real

import numpy as np
from scipy.stats import beta, binom
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils import check_consistent_length, column_or_1d

from sklearn_calib._core.arrays import as_labels


def check_goals(estimator, coverage, max_risk):
    """Raise ValueError unless one goal is given and the classifier has a confidence."""
    if (coverage is None) == (max_risk is None):
        raise ValueError(
            "exactly one of coverage and max_risk must be given, got "
            f"coverage={coverage} and max_risk={max_risk}. Set the fraction "
            "of samples to predict, or the error rate that must not be exceeded."
        )
    if not hasattr(estimator, "predict_proba"):
        raise ValueError(
            "estimator must have predict_proba, got "
            f"{type(estimator).__name__}. Use another classifier, or wrap it in "
            "CalibratedClassifier with PlattScaling()."
        )


def check_tested_once(rows):
    """Raise ValueError if folds test a sample repeatedly."""
    n_samples = len(np.unique(rows))
    if n_samples < len(rows):
        raise ValueError(
            f"cv must test each sample at most once for max_risk, got {len(rows)} "
            f"tests of {n_samples} samples. Use a splitter without repetitions."
        )


def refuse_max_logit(estimator):
    """Raise ValueError for a classifier whose logits are unknown."""
    raise ValueError(
        'confidence must be computed from probabilities, such as "msp", if the '
        "decision function is not known to return logits, got 'max_logit' and "
        f"{type(estimator).__name__}. If it does return logits, set the attribute "
        "decision_function_is_logits = True of the classifier."
    )


def threshold_for_coverage(confidence, weight, coverage):
    """Return the highest threshold that accepts at least this fraction of the weight.

    All samples tied at the threshold are accepted. For full coverage it is minus
    infinity, so that less confident new samples are accepted too.
    """
    if coverage == 1:
        return -np.inf
    order = np.argsort(-confidence, kind="stable")
    accepted = np.cumsum(weight[order])
    # Without the last factor, a coverage of 0.07 would accept 8 of 100 samples, as the
    # product is slightly above 7.
    wanted = coverage * accepted[-1] * (1 - 1e-12)
    return confidence[order[np.searchsorted(accepted, wanted)]]


def threshold_for_risk(confidence, wrong, max_risk, delta):
    """Return the lowest threshold that fixed-sequence testing accepts.

    From the highest threshold to the lowest, an exact binomial test is applied to each
    hypothesis "the risk exceeds max_risk". Its level is the level assigned to it, plus
    the level of the previous test if that one rejected.
    """
    thresholds, index = np.unique(-confidence, return_inverse=True)
    n_accepted = np.bincount(index).cumsum()
    n_wrong = np.bincount(index, weights=wrong).cumsum()
    assigned = _levels(n_accepted, delta)
    pvalue = binom.cdf(n_wrong, n_accepted, max_risk)
    found, level, starts = None, 0.0, np.flatnonzero(assigned)
    for start, end in zip(starts, [*starts[1:], len(pvalue)], strict=True):
        level += assigned[start]
        n_rejected = np.append(pvalue[start:end] > level, True).argmax()
        if n_rejected > 0:
            found = start + n_rejected - 1
        if n_rejected < end - start:
            level = 0.0
    if found is None:
        counts = np.transpose([n_wrong, n_accepted, assigned])[starts]
        lowest = min(risk_upper_bound(*each) for each in counts)
        _refuse_max_risk(max_risk, delta, lowest, len(confidence))
    return -thresholds[found]


def _levels(n_accepted, delta):
    """Return the significance level assigned to each test; they sum to delta.

    It is delta / 2 for the threshold that accepts all samples, delta / 4 for that of
    the most confident half, and so on; the smallest fraction gets the remainder. Many
    samples are needed if the risk is the same at all thresholds, and few suffice if it
    falls with the confidence.
    """
    n_samples = n_accepted[-1]
    fractions = 0.5 ** np.arange(int(n_samples).bit_length())
    levels = delta * fractions / 2
    levels[-1] *= 2
    starts = np.searchsorted(n_accepted, n_samples * fractions)
    return np.bincount(starts, levels, len(n_accepted))


def risk_upper_bound(n_wrong, n_samples, delta):
    """Return the Clopper-Pearson upper confidence limit for an error rate."""
    if n_wrong == n_samples:
        return 1.0
    return float(beta.isf(delta, n_wrong + 1, n_samples - n_wrong))


def _refuse_max_risk(max_risk, delta, lowest, n_samples):
    """Raise ValueError with the lowest risk that the same tests guarantee."""
    raise ValueError(
        f"max_risk must be a risk that some threshold can guarantee, got {max_risk}. "
        f"The lowest here is {ceil(lowest * 1e4) / 1e4:.4g}, for delta={delta} and "
        f"{n_samples} held-out samples. Set a larger max_risk or delta, or use more "
        "samples or a more accurate classifier."
    )


def resolve_abstain_label(label, classes):
    """Return the label for abstaining, of the classes' type and different from them."""
    known = classes.tolist()
    is_text = isinstance(known[0], str)
    if label is None and is_text:
        label = "abstain"
    if not isinstance(label, str if is_text else Real):
        wanted, example = ("string", '"abstain"') if is_text else ("number", "-1")
        raise ValueError(
            f"abstain_label must be a {wanted}, like the labels, got {label!r}. "
            f"Choose one that is not a class, such as {example}."
        )
    if label in known:
        raise ValueError(
            f"abstain_label must not be one of the classes {known}, got {label!r}. "
            "Choose another label."
        )
    return label


def weighted_accuracy(y, predicted, weight, threshold):
    """Return the accuracy; the weight of samples below the threshold is zero."""
    y = column_or_1d(as_labels(y, "y"))
    check_consistent_length(predicted, y)
    if weight.any():
        return float(np.average(predicted == y, weights=weight))
    warnings.warn(
        f"The accuracy is undefined: none of {len(y)} samples reaches the threshold "
        f"{threshold:.4g}. Set a larger coverage or max_risk.",
        UndefinedMetricWarning,
    )
    return float("nan")
