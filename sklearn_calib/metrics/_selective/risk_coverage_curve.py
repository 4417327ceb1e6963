"""Risk and coverage of selective classification."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._numerics.risk_coverage import LOSS, RANKING, Loss, curve, rank
from sklearn_calib._validation.declarations import Interval, validate_params
from sklearn_calib._validation.types import Confidence, Floats

# Tolerance for rounding errors: a coverage of 0.1 * 3 means three of ten samples.
ROUNDING = 1e-9


@validate_params({**RANKING, **LOSS})
def risk_coverage_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence: Confidence = "msp",
    loss: Loss = "zero_one",
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> tuple[Floats, Floats, Floats]:
    """Risk-coverage curve: mean loss of the most confident samples for each coverage.

    A selective classifier accepts the samples whose confidence is at least a threshold
    and abstains on the others. Coverage is the fraction of accepted samples, and risk
    is their mean loss. A low risk at a high coverage is best.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class.

    confidence : str, callable or array-like of shape (n_samples,), default="msp"
        Confidence by which the samples are ranked:

        - "msp": the maximum softmax probability;
        - "margin": the largest probability minus the second;
        - "negative_entropy": the sum of p log p;
        - "negative_gini": the sum of p squared, minus 1;
        - "l2_norm": the root of the sum of p squared;
        - a callable that takes probabilities of shape (n_samples, n_classes) and
          returns one number per sample;
        - an array with one number per sample, such as `logits.max(axis=1)`.

        "max_logit" and "p_norm" of :class:`~sklearn_calib.SelectiveClassifier` are
        computed from logits, so pass them as an array.

    loss : {"zero_one", "log"} or callable, default="zero_one"
        Loss whose mean is the risk. "zero_one" is 1 for a wrong prediction. "log" is
        the negative log-likelihood of the true class. A callable takes the column
        indices of the true classes, of shape (n_samples,), and the probabilities, of
        shape (n_samples, n_classes), and returns one finite number per sample.

    pos_label : label, default=None
        Label of the class whose probabilities a 1-d array contains. By default, the
        second of the two labels.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`. By default, the sorted distinct values of
        `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.

    Returns
    -------
    coverage : ndarray of shape (n_thresholds,)
        Fraction of the samples at or above each threshold, increasing to 1.

    risk : ndarray of shape (n_thresholds,)
        Mean loss of those samples.

    thresholds : ndarray of shape (n_thresholds,)
        Distinct confidences, in decreasing order.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities, or the confidence is unknown or NaN.

    See Also
    --------
    aurc_loss : Area under this curve.
    sklearn_calib.displays.RiskCoverageDisplay : Plot of this curve.

    Notes
    -----
    For the log loss, probabilities are clipped to at least 2.2e-16, the machine epsilon
    of double precision, as in :func:`sklearn.metrics.log_loss`. The loss of a
    probability of zero is therefore 36.

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
        y_true, y_proba, confidence, loss, labels, sample_weight, pos_label
    )
    return *curve(mass, total_loss), thresholds


@validate_params(
    {**RANKING, **LOSS, "coverage": [Interval(Real, 0, 1, closed="right")]}
)
def risk_at_coverage(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    coverage: float,
    confidence: Confidence = "msp",
    loss: Loss = "zero_one",
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Selective risk at a given coverage: mean loss of the most confident samples.

    The confidence threshold is the highest one with at least the given coverage. Lower
    is better.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class.

    coverage : float
        Minimum fraction of accepted samples, in (0, 1].

    confidence : str, callable or array-like of shape (n_samples,), default="msp"
        Confidence by which the samples are ranked, as in :func:`risk_coverage_curve`.

    loss : {"zero_one", "log"} or callable, default="zero_one"
        Loss whose mean is the risk, as in :func:`risk_coverage_curve`.

    pos_label : label, default=None
        Label of the class whose probabilities a 1-d array contains. By default, the
        second of the two labels.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`. By default, the sorted distinct values of
        `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.

    Returns
    -------
    risk : float
        Mean loss of the accepted samples. For "zero_one", an error rate in [0, 1].

    Raises
    ------
    ValueError
        If the coverage is not in (0, 1], the labels do not match the columns of
        `y_proba`, or `y_proba` contains values that are not probabilities.

    See Also
    --------
    coverage_at_risk : Largest coverage at a given risk.

    Notes
    -----
    A threshold cannot separate samples of equal confidence. If many confidences are
    tied, the actual coverage may be much larger than `coverage`.

    Examples
    --------
    >>> from sklearn_calib.metrics import risk_at_coverage
    >>> y_true, y_proba = [0, 1, 0, 1], [0.1, 0.9, 0.8, 0.7]
    >>> risk_at_coverage(y_true, y_proba, coverage=0.5)
    0.0
    >>> risk_at_coverage(y_true, y_proba, coverage=1.0)
    0.25
    """
    mass, total_loss, _ = rank(
        y_true, y_proba, confidence, loss, labels, sample_weight, pos_label
    )
    reached, risk = curve(mass, total_loss)
    return float(risk[np.searchsorted(reached, coverage * (1 - ROUNDING))])


@validate_params(
    {**RANKING, **LOSS, "max_risk": [Interval(Real, 0, None, closed="left")]}
)
def coverage_at_risk(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    max_risk: float,
    confidence: Confidence = "msp",
    loss: Loss = "zero_one",
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Largest coverage whose selective risk is at most a given value.

    Coverage is the fraction of the samples at or above a confidence threshold, and risk
    is their mean loss. Higher is better.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class.

    max_risk : float
        Maximum mean loss of the accepted samples, at least 0.

    confidence : str, callable or array-like of shape (n_samples,), default="msp"
        Confidence by which the samples are ranked, as in :func:`risk_coverage_curve`.

    loss : {"zero_one", "log"} or callable, default="zero_one"
        Loss whose mean is the risk, as in :func:`risk_coverage_curve`.

    pos_label : label, default=None
        Label of the class whose probabilities a 1-d array contains. By default, the
        second of the two labels.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`. By default, the sorted distinct values of
        `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.

    Returns
    -------
    coverage : float
        Fraction of the samples, in [0, 1]. It is 0 if the risk exceeds `max_risk` for
        every threshold.

    Raises
    ------
    ValueError
        If `max_risk` is negative, the labels do not match the columns of `y_proba`, or
        `y_proba` contains values that are not probabilities.

    See Also
    --------
    risk_at_coverage : Risk at a given coverage.

    Notes
    -----
    The threshold is chosen with the labels of these samples, so the risk on new samples
    may be higher than `max_risk`.

    Examples
    --------
    >>> from sklearn_calib.metrics import coverage_at_risk
    >>> y_true, y_proba = [0, 1, 0, 1], [0.1, 0.9, 0.8, 0.7]
    >>> coverage_at_risk(y_true, y_proba, max_risk=0.05)
    0.5
    >>> coverage_at_risk(y_true, y_proba, max_risk=0.25)
    1.0
    """
    mass, total_loss, _ = rank(
        y_true, y_proba, confidence, loss, labels, sample_weight, pos_label
    )
    reached, risk = curve(mass, total_loss)
    return float(reached[risk <= max_risk * (1 + ROUNDING)].max(initial=0.0))
