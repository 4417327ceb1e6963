"""Risk and coverage: what is gained by answering only the samples one is sure of."""

import numpy as np
from scipy.special import digamma, xlogy

from sklearn_calib._core.confidence import top_label
from sklearn_calib._core.validation import StrOptions, check_proba, validate_params
from sklearn_calib.metrics._targets import TARGETS, as_columns, check_targets


def _maximum_probability(proba):
    """Return the maximum softmax probability, MSP."""
    return top_label(proba)[0]


def _zero_one(proba, codes):
    """Return 1 for a wrong prediction, 0 for a right one."""
    return (top_label(proba)[1] != codes).astype(np.float64)


_CONFIDENCES = {
    "msp": _maximum_probability,
}
_LOSSES = {
    "zero_one": _zero_one,
}
CONFIDENCE = {"confidence": [StrOptions(set(_CONFIDENCES))]}
LOSS = {"loss": [StrOptions(set(_LOSSES))]}


@validate_params({**TARGETS, **CONFIDENCE, **LOSS}, prefer_skip_nested_validation=True)
def risk_coverage_curve(
    y_true,
    y_proba,
    *,
    confidence="msp",
    loss="zero_one",
    labels=None,
    sample_weight=None,
):
    """Mean loss among the most confident samples, for every share of them.

    A classifier that may abstain answers the samples whose confidence is at least a
    threshold. Coverage is the share that it answers, risk its mean loss on them; low
    risk at high coverage is best.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class.

    confidence : {"msp"}, default="msp"
        What the samples are ranked by: the largest probability.

    loss : {"zero_one"}, default="zero_one"
        What the risk is the mean of: one for a wrong prediction.

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples.

    Returns
    -------
    coverage : ndarray of shape (n_thresholds,)
        Share of the samples at or above each threshold, increasing to 1.

    risk : ndarray of shape (n_thresholds,)
        Mean loss of those samples.

    thresholds : ndarray of shape (n_thresholds,)
        The distinct confidences, decreasing.

    Raises
    ------
    ValueError
        If the labels do not match the columns, or `y_proba` holds anything but
        probabilities.

    See Also
    --------
    aurc_loss : Area under this curve.

    References
    ----------
    .. [1] R. El-Yaniv and Y. Wiener, "On the Foundations of Noise-free Selective
       Classification", JMLR 2010.

    Examples
    --------
    >>> from sklearn_calib.metrics import risk_coverage_curve
    >>> coverage, risk, thresholds = risk_coverage_curve(
    ...     [0, 1, 0, 1], [0.1, 0.9, 0.8, 0.7]
    ... )
    >>> coverage
    array([0.5 , 0.75, 1.  ])
    >>> risk.round(3)
    array([0.   , 0.333, 0.25 ])
    >>> thresholds
    array([0.9, 0.8, 0.7])
    """
    mass, total_loss, thresholds = _ranked_groups(
        y_true, y_proba, confidence, loss, labels, sample_weight
    )
    answered = np.cumsum(mass)
    return answered / answered[-1], np.cumsum(total_loss) / answered, thresholds


@validate_params({**TARGETS, **CONFIDENCE, **LOSS}, prefer_skip_nested_validation=True)
def aurc_loss(
    y_true,
    y_proba,
    *,
    confidence="msp",
    loss="zero_one",
    labels=None,
    sample_weight=None,
):
    r"""Area under the risk-coverage curve, AURC.

    The mean over k of the mean loss of the k most confident samples. 0 is best; a
    classifier whose confidence says nothing has its error rate. Both a better accuracy
    and a better ranking of right before wrong predictions lower it.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class.

    confidence : {"msp"}, default="msp"
        What the samples are ranked by: the largest probability.

    loss : {"zero_one"}, default="zero_one"
        What is averaged: one for a wrong prediction.

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples, which count repetitions: their scale matters, as the
        number of samples does, and they must not sum to less than one.

    Returns
    -------
    aurc : float
        Area in [0, 1].

    Raises
    ------
    ValueError
        If the labels do not match the columns, or `y_proba` holds anything but
        probabilities, or the weights sum to less than one.

    See Also
    --------
    excess_aurc_loss : What the ranking alone costs.

    Notes
    -----
    The value is :math:`\frac{1}{n} \sum_{k=1}^n \frac{1}{k} \sum_{i=1}^k \ell_{(i)}`
    with the losses in the order of decreasing confidence [1]_. Samples of equal
    confidence may stand in any order; the value is the mean over all their orders,
    hence it does not depend on the order of the rows. Other packages leave it to their
    sort, or interpolate the curve with trapezoids; the code of [1]_ divides by one
    sample too many.

    References
    ----------
    .. [1] Y. Geifman, G. Uziel and R. El-Yaniv, "Bias-Reduced Uncertainty Estimation
       for Deep Neural Classifiers", ICLR 2019.

    .. [2] H. Zhou, J. Van Landeghem, T. Popordanoska and M. B. Blaschko, "A Novel
       Characterization of the Population Area Under the Risk Coverage Curve (AURC)
       and Rates of Finite Sample Estimators", ICML 2025.

    Examples
    --------
    >>> from sklearn_calib.metrics import aurc_loss
    >>> round(aurc_loss([0, 1, 0, 1], [0.1, 0.9, 0.8, 0.7]), 3)
    0.146
    """
    groups = _ranked_groups(y_true, y_proba, confidence, loss, labels, sample_weight)
    return _area(*groups[:2])


@validate_params({**TARGETS, **CONFIDENCE}, prefer_skip_nested_validation=True)
def excess_aurc_loss(
    y_true, y_proba, *, confidence="msp", labels=None, sample_weight=None
):
    r"""Area under the risk-coverage curve in excess of a perfect ranking, E-AURC.

    The part of :func:`aurc_loss` that is not due to the error rate: what it costs that
    some wrong predictions are more confident than right ones. 0 is best.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class.

    confidence : {"msp"}, default="msp"
        What the samples are ranked by: the largest probability.

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples, which count repetitions as in :func:`aurc_loss`.

    Returns
    -------
    excess : float
        Area in [0, 1].

    Raises
    ------
    ValueError
        If the labels do not match the columns, or `y_proba` holds anything but
        probabilities, or the weights sum to less than one.

    Notes
    -----
    A perfect ranking of many samples with the error rate :math:`r` has the area
    :math:`r + (1 - r) \log(1 - r)` [1]_, which is what is subtracted. Of
    finitely many it has a little more, at most :math:`r / n`.

    References
    ----------
    .. [1] Y. Geifman, G. Uziel and R. El-Yaniv, "Bias-Reduced Uncertainty Estimation
       for Deep Neural Classifiers", ICLR 2019.

    Examples
    --------
    >>> from sklearn_calib.metrics import excess_aurc_loss
    >>> round(excess_aurc_loss([0, 1, 0, 1], [0.1, 0.9, 0.8, 0.7]), 3)
    0.112
    """
    mass, total_loss, _ = _ranked_groups(
        y_true, y_proba, confidence, "zero_one", labels, sample_weight
    )
    risk = total_loss.sum() / mass.sum()
    return _area(mass, total_loss) - float(risk + xlogy(1 - risk, 1 - risk))


def _ranked_groups(y_true, y_proba, confidence, loss, labels, sample_weight):
    """Return weight, summed loss and confidence of samples of equal confidence.

    The most confident come first. Samples without weight are left out.
    """
    proba, codes, weight = check_targets(y_true, y_proba, labels, sample_weight)
    proba = check_proba(as_columns(proba))
    scores = _CONFIDENCES[confidence](proba)
    losses = _LOSSES[loss](proba, codes)
    if weight is not None:
        scores, losses = scores[weight > 0], (losses * weight)[weight > 0]
        weight = weight[weight > 0]
    negated, group = np.unique(-scores, return_inverse=True)
    mass = np.bincount(group, weight).astype(np.float64)
    return mass, np.bincount(group, losses), -negated


def _area(mass, total_loss):
    """Return the mean over k of the mean loss of the first k, ties in any order."""
    after = np.cumsum(mass)
    if after[-1] < 1:
        raise ValueError(
            "sample_weight must sum to at least 1, for it counts repetitions, got a "
            f"sum of {after[-1]:.3g}. Multiply the weights by n_samples / sum."
        )
    before, loss_before = after - mass, np.cumsum(total_loss) - total_loss
    # On average over the orders of a group, the mean loss of the first k within it is
    # (loss_before + (k - before) mean) / k = mean + (loss_before - before mean) / k.
    # The digamma function sums 1 / k, for fractional weights too.
    mean = total_loss / mass
    reciprocals = digamma(after + 1) - digamma(before + 1)
    area = total_loss + (loss_before - before * mean) * reciprocals
    return float(area.sum() / after[-1])
