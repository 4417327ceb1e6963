"""Where a classifier begins to abstain, and what it says then."""

from math import ceil
from numbers import Real

import numpy as np
from scipy.stats import beta, binom


def check_goals(estimator, coverage, max_risk):
    """Refuse both or neither of the goals, and classifiers without confidence."""
    if (coverage is None) == (max_risk is None):
        raise ValueError(
            "exactly one of coverage and max_risk must be given, got "
            f"coverage={coverage} and max_risk={max_risk}. Say which "
            "share to answer, or which error rate not to exceed."
        )
    if not hasattr(estimator, "predict_proba"):
        raise ValueError(
            "estimator must have predict_proba, got "
            f"{type(estimator).__name__}. Choose another classifier, or wrap "
            "it in scikit-learn's CalibratedClassifierCV."
        )


def refuse_max_logit(estimator):
    """Raise, as the logits of this classifier are not known."""
    raise ValueError(
        'confidence must be one of probabilities, such as "msp", for a classifier '
        "whose decision function is not known to hold logits, got 'max_logit' and "
        f"{type(estimator).__name__}. Set the attribute decision_function_is_logits "
        "= True of the classifier if it does."
    )


def threshold_for_coverage(confidence, weight, coverage):
    """Return the highest threshold that accepts at least this share of the weight.

    All samples tied at the threshold are accepted. Full coverage is no threshold: new
    samples less confident than all of these are accepted too.
    """
    if coverage == 1:
        return -np.inf
    order = np.argsort(-confidence, kind="stable")
    accepted = np.cumsum(weight[order])
    # Without the last factor 0.07 of 100 samples are 8: the product is above 7.
    wanted = coverage * accepted[-1] * (1 - 1e-12)
    return confidence[order[np.searchsorted(accepted, wanted)]]


def threshold_for_risk(confidence, wrong, max_risk, delta):
    """Return the lowest threshold at which tests in a fixed order find the risk low.

    From the highest threshold down, each hypothesis "the risk exceeds max_risk" is
    tested by the exact binomial test at its own level plus that of the test before,
    if that rejected.
    """
    thresholds, place = np.unique(-confidence, return_inverse=True)
    n_accepted = np.bincount(place).cumsum()
    n_wrong = np.bincount(place, weights=wrong).cumsum()
    own_level = _levels(n_accepted, delta)
    pvalue = binom.cdf(n_wrong, n_accepted, max_risk)
    found, level, starts = None, 0.0, np.flatnonzero(own_level)
    for start, end in zip(starts, [*starts[1:], len(pvalue)], strict=True):
        level += own_level[start]
        n_rejected = np.append(pvalue[start:end] > level, True).argmax()
        if n_rejected > 0:
            found = start + n_rejected - 1
        if n_rejected < end - start:
            level = 0.0
    if found is None:
        counts = np.transpose([n_wrong, n_accepted, own_level])[starts]
        lowest = min(risk_upper_bound(*each) for each in counts)
        _refuse_max_risk(max_risk, delta, lowest, len(confidence))
    return -thresholds[found]


def _levels(n_accepted, delta):
    """Return the level of each test: delta / 2 for all samples, half of it for half.

    Where the risk is the same at all thresholds, only many samples show that it is low;
    where it falls with the confidence, a small share already does. The levels sum to
    delta, and the last share has what is left.
    """
    n_samples = n_accepted[-1]
    shares = 0.5 ** np.arange(int(n_samples).bit_length())
    levels = delta * shares / 2
    levels[-1] *= 2
    starts = np.searchsorted(n_accepted, n_samples * shares)
    return np.bincount(starts, levels, len(n_accepted))


def risk_upper_bound(n_wrong, n_samples, delta):
    """Return the error rate above which so few errors have a probability below delta.

    It is the inversion of the binomial tail, Clopper and Pearson's upper limit.
    """
    if n_wrong == n_samples:
        return 1.0
    return float(beta.isf(delta, n_wrong + 1, n_samples - n_wrong))


def _refuse_max_risk(max_risk, delta, lowest, n_samples):
    """Raise, naming a risk that the same tests do find."""
    raise ValueError(
        f"max_risk must be a risk that some threshold can guarantee, got {max_risk}. "
        f"The lowest here is {ceil(lowest * 1e4) / 1e4:.4g}, for delta={delta} and "
        f"{n_samples} held-out samples. Ask for no less, or give more samples, a "
        "larger delta or a better classifier."
    )


def resolve_abstain_label(label, classes):
    """Return the label for abstaining: of the kind of the classes, and none of them."""
    known = classes.tolist()
    is_text = isinstance(known[0], str)
    if label is None and is_text:
        label = "abstain"
    if not isinstance(label, str if is_text else Real):
        wanted, example = ("string", '"abstain"') if is_text else ("number", "-1")
        raise ValueError(
            f"abstain_label must be a {wanted}, as the labels are, got {label!r}. "
            f"Choose one that is no class, such as {example}."
        )
    if label in known:
        raise ValueError(
            f"abstain_label must be no label of a class, got {label!r}, which is one "
            f"of {known}. Choose another."
        )
    return label
