"""Where a classifier begins to abstain, and what it says then."""

from bisect import bisect_left
from math import ceil
from numbers import Real

import numpy as np
from scipy.stats import beta


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
    """Return the threshold that a binary search finds, and its bound of the risk.

    Each of the bounds that the search looks at holds at level delta / n_looks, so with
    probability 1 - delta all of them hold.
    """
    thresholds, place = np.unique(confidence, return_inverse=True)
    n_accepted = np.bincount(place)[::-1].cumsum()[::-1]
    n_wrong = np.bincount(place, weights=wrong)[::-1].cumsum()[::-1]
    n_looks = len(thresholds).bit_length()  # of a binary search, at most
    bounds = {}

    def is_safe(i):
        bounds[i] = risk_upper_bound(n_wrong[i], n_accepted[i], delta / n_looks)
        return bounds[i] <= max_risk

    found = bisect_left(range(len(thresholds)), True, key=is_safe)
    if found == len(thresholds):
        _refuse_max_risk(max_risk, delta, min(bounds.values()), len(confidence))
    return thresholds[found], bounds[found]


def risk_upper_bound(n_wrong, n_samples, delta):
    """Return the error rate above which so few errors have a probability below delta.

    It is the inversion of the binomial tail, Clopper and Pearson's upper limit.
    """
    if n_wrong == n_samples:
        return 1.0
    return float(beta.isf(delta, n_wrong + 1, n_samples - n_wrong))


def _refuse_max_risk(max_risk, delta, lowest, n_samples):
    """Raise, naming a risk that the same search does find."""
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
