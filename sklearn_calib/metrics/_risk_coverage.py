"""Risk and coverage: what is gained by answering only the samples one is sure of."""

from __future__ import annotations

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._core.risk_coverage import LOSS, RANKING, Loss, curve, rank
from sklearn_calib._core.typing import Confidence, Floats
from sklearn_calib._core.validation import Interval, validate_params

# Shares are quotients of sums: 0.1 * 3 asks for three of ten samples, not for four.
ROUNDING = 1e-9


@validate_params({**RANKING, **LOSS}, prefer_skip_nested_validation=True)
def risk_coverage_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence: Confidence = "msp",
    loss: Loss = "zero_one",
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> tuple[Floats, Floats, Floats]:
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

    confidence : str, callable or array-like of shape (n_samples,), default="msp"
        What the samples are ranked by, greater where the classifier is surer:

        - "msp": the maximum softmax probability;
        - "margin": the largest probability minus the second;
        - "negative_entropy": the sum of p log p;
        - "negative_gini": the sum of p squared, minus 1;
        - "l2_norm": the root of the sum of p squared;
        - a function of probabilities of shape (n_samples, n_classes) that returns one
          number per sample;
        - these numbers themselves, such as `logits.max(axis=1)`.

    loss : {"zero_one", "log"} or callable, default="zero_one"
        What the risk is the mean of: "zero_one" is 1 for a wrong prediction; "log" is
        minus the logarithm of the true class's probability; a callable gets the
        columns of the true classes, of shape (n_samples,), and the probabilities, of
        shape (n_samples, n_classes), and returns one finite number per sample.

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
        probabilities, or the confidence is unknown or NaN.

    See Also
    --------
    aurc_loss : Area under this curve.
    sklearn_calib.displays.RiskCoverageDisplay : This curve as a picture.

    Notes
    -----
    With the log loss, a probability below 2.2e-16, the resolution of double precision,
    counts as that, as in :func:`sklearn.metrics.log_loss`: zero has a loss of 36.

    References
    ----------
    .. [1] R. El-Yaniv and Y. Wiener, "On the Foundations of Noise-free Selective
       Classification", JMLR 11, 2010.

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
    mass, total_loss, thresholds = rank(
        y_true, y_proba, confidence, loss, labels, sample_weight
    )
    return *curve(mass, total_loss), thresholds


@validate_params(
    {**RANKING, **LOSS, "coverage": [Interval(Real, 0, 1, closed="right")]},
    prefer_skip_nested_validation=True,
)
def risk_at_coverage(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    coverage: float,
    confidence: Confidence = "msp",
    loss: Loss = "zero_one",
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean loss of the most confident samples, given the share to answer. Low is good.

    Of the thresholds on the confidence under which at least this share is answered, the
    highest is taken.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class.

    coverage : float
        Share of the samples to answer at least, in (0, 1].

    confidence : str, callable or array-like of shape (n_samples,), default="msp"
        What the samples are ranked by, as in :func:`risk_coverage_curve`.

    loss : {"zero_one", "log"} or callable, default="zero_one"
        What the risk is the mean of, as in :func:`risk_coverage_curve`.

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples.

    Returns
    -------
    risk : float
        Mean loss of the answered samples; with "zero_one" an error rate in [0, 1].

    Raises
    ------
    ValueError
        If the coverage is not in (0, 1], the labels do not match the columns, or
        `y_proba` holds anything but probabilities.

    See Also
    --------
    coverage_at_risk : The share that can be answered, given the risk.

    Notes
    -----
    No threshold can part samples of equal confidence: where many are tied, the share
    that is answered may be much larger than `coverage`.

    Examples
    --------
    >>> from sklearn_calib.metrics import risk_at_coverage
    >>> y_true, y_proba = [0, 1, 0, 1], [0.1, 0.9, 0.8, 0.7]
    >>> risk_at_coverage(y_true, y_proba, coverage=0.5)
    0.0
    >>> risk_at_coverage(y_true, y_proba, coverage=1.0)
    0.25
    """
    mass, total_loss, _ = rank(y_true, y_proba, confidence, loss, labels, sample_weight)
    reached, risk = curve(mass, total_loss)
    return float(risk[np.searchsorted(reached, coverage * (1 - ROUNDING))])


@validate_params(
    {**RANKING, **LOSS, "max_risk": [Interval(Real, 0, None, closed="left")]},
    prefer_skip_nested_validation=True,
)
def coverage_at_risk(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    max_risk: float,
    confidence: Confidence = "msp",
    loss: Loss = "zero_one",
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Largest share of the samples that can be answered at a risk. High is good.

    Of the thresholds on the confidence at or above which the mean loss is at most
    `max_risk`, the one that answers the most samples is taken.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class.

    max_risk : float
        Largest mean loss of the answered samples, at least 0.

    confidence : str, callable or array-like of shape (n_samples,), default="msp"
        What the samples are ranked by, as in :func:`risk_coverage_curve`.

    loss : {"zero_one", "log"} or callable, default="zero_one"
        What the risk is the mean of, as in :func:`risk_coverage_curve`.

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples.

    Returns
    -------
    coverage : float
        Share of the samples, in [0, 1]. It is 0 if no threshold has so low a risk.

    Raises
    ------
    ValueError
        If `max_risk` is negative, the labels do not match the columns, or `y_proba`
        holds anything but probabilities.

    See Also
    --------
    risk_at_coverage : The risk, given the share to answer.

    Notes
    -----
    The risk is that of these samples and promises nothing about others: the threshold
    has been chosen by looking at their labels.

    Examples
    --------
    >>> from sklearn_calib.metrics import coverage_at_risk
    >>> y_true, y_proba = [0, 1, 0, 1], [0.1, 0.9, 0.8, 0.7]
    >>> coverage_at_risk(y_true, y_proba, max_risk=0.05)
    0.5
    >>> coverage_at_risk(y_true, y_proba, max_risk=0.25)
    1.0
    """
    mass, total_loss, _ = rank(y_true, y_proba, confidence, loss, labels, sample_weight)
    reached, risk = curve(mass, total_loss)
    return float(reached[risk <= max_risk * (1 + ROUNDING)].max(initial=0.0))
