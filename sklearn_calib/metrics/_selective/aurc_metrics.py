"""Areas under the risk-coverage curve: AURC, E-AURC and AUGRC."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import trapezoid
from scipy.special import xlogy

from sklearn_calib._numerics.risk_coverage import (
    ESTIMATORS,
    LOSS,
    RANKING,
    Loss,
    curve,
    rank,
)
from sklearn_calib._validation.declarations import StrOptions, validate_params
from sklearn_calib._validation.types import Confidence


@validate_params({**RANKING, **LOSS, "estimator": [StrOptions(set(ESTIMATORS))]})
def aurc_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence: Confidence = "msp",
    loss: Loss = "zero_one",
    estimator: str = "mean",
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Area under the risk-coverage curve (AURC).

    The mean loss of the k most confident samples, averaged over k. Lower is better; 0
    is best, and the error rate is chance level. The AURC decreases if the accuracy
    increases, or if more correct predictions are ranked before wrong ones.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class.

    confidence : str, callable or array-like of shape (n_samples,), default="msp"
        Confidence by which the samples are ranked, as in :func:`risk_coverage_curve`.

    loss : {"zero_one", "log"} or callable, default="zero_one"
        Loss that is averaged, as in :func:`risk_coverage_curve`.

    estimator : {"mean", "harmonic", "population", "trapezoid"}, default="mean"
        Estimator of the area:

        - "mean": mean of the risks at all coverages;
        - "harmonic": the same value, computed as a weighted mean of the losses;
        - "population": weighted mean of the losses with the weights of the limit of
          many samples, which :func:`sklearn_calib.losses.aurc_loss` calls "log";
        - "trapezoid": trapezoidal rule over the thresholds. It does not depend on the
          scale of the weights.

    pos_label : label, default=None
        Label of the class whose probabilities a 1-d array contains. By default, the
        second of the two labels.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`. By default, the sorted distinct values of
        `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. A weight of 2 is equivalent to including the sample twice. The
        weights count samples, so their scale matters, and their sum must be at least
        one.

    Returns
    -------
    aurc : float
        Area under the curve, in [0, 1] for the loss "zero_one".

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities, or the weights sum to less than one, or the
        confidence is unknown or NaN.

    See Also
    --------
    excess_aurc_loss : Part of the AURC that is due to the ranking.
    augrc_loss : Area with less weight on the most confident samples.
    sklearn_calib.losses.aurc_loss : AURC of a mini-batch, for training.

    Notes
    -----
    The value is :math:`\frac{1}{n} \sum_{k=1}^n \frac{1}{k} \sum_{i=1}^k \ell_{(i)}`,
    where the losses :math:`\ell_{(i)}` are sorted by decreasing confidence [1]_. It is
    equal to :math:`\frac{1}{n} \sum_k (H_n - H_{k-1}) \ell_{(k)}` with the harmonic
    numbers :math:`H_k`. "population" is
    :math:`\frac{1}{n} \sum_k \log\frac{n+1}{k} \ell_{(k)}`, which is the estimator of
    [2]_. "trapezoid" is the estimator of [3]_, with a constant risk below the first
    threshold.

    For tied confidences, the value is the mean over all orders of the tied samples, so
    it does not depend on the order of the rows. "trapezoid" interpolates between the
    thresholds instead. In other packages, the value depends on the order of the rows.
    The code of [1]_ divides by one sample too many.

    For ``loss="log"`` and without ties, "population" is equal to
    :func:`sklearn_calib.losses.aurc_loss` with ``weights="log"``, and "mean" and
    "harmonic" are equal to it with ``weights="harmonic"``. For tied samples, that
    function uses the weight of their mean rank, while this one uses the mean of their
    weights.

    For given losses, the area is lowest if the confidence ranks the samples by their
    loss (except for "trapezoid"). For the loss "log" and the estimator "population",
    this lowest area is at least :math:`\log 2 \, \frac{n r^2 + r}{2 (n + 1)}` for the
    error rate :math:`r` ([4]_, Prop. 4.7).

    References
    ----------
    .. [1] Y. Geifman, G. Uziel and R. El-Yaniv, "Bias-Reduced Uncertainty Estimation
       for Deep Neural Classifiers", ICLR 2019.

    .. [2] H. Zhou, J. Van Landeghem, T. Popordanoska and M. B. Blaschko, "A Novel
       Characterization of the Population Area Under the Risk Coverage Curve (AURC)
       and Rates of Finite Sample Estimators", ICML 2025.

    .. [3] P. F. Jaeger, C. T. Lüth, L. Klein and T. J. Bungert, "A Call to Reflect on
       Evaluation Practices for Failure Detection in Image Classification", ICLR 2023.

    .. [4] H. Zhou, S. G. Gruber, T. Popordanoska and M. B. Blaschko, "Revisiting
       Reweighted Risk for Calibration: AURC, Focal Loss, and Inverse Focal Loss",
       arXiv:2505.23463, 2025.

    Examples
    --------
    >>> from sklearn_calib.metrics import aurc_loss
    >>> y_true, y_proba = [0, 1, 0, 1], [0.1, 0.9, 0.8, 0.7]
    >>> round(aurc_loss(y_true, y_proba), 3)
    0.146
    >>> round(aurc_loss(y_true, y_proba, loss="log", estimator="population"), 3)
    0.292
    """
    mass, total_loss, _ = rank(
        y_true, y_proba, confidence, loss, labels, sample_weight, pos_label
    )
    return ESTIMATORS[estimator](mass, total_loss)


@validate_params({**RANKING, "optimum": [StrOptions({"asymptotic", "finite"})]})
def excess_aurc_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence: Confidence = "msp",
    optimum: str = "asymptotic",
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Excess area under the risk-coverage curve (E-AURC).

    The difference between :func:`aurc_loss` and the area of a perfect ranking with the
    same error rate. It measures the cost of wrong predictions that are more confident
    than correct ones. Lower is better; 0 is best.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class.

    confidence : str, callable or array-like of shape (n_samples,), default="msp"
        Confidence by which the samples are ranked, as in :func:`risk_coverage_curve`.

    optimum : {"asymptotic", "finite"}, default="asymptotic"
        Whether the subtracted area is that of a perfect ranking in the limit of many
        samples, or that of a perfect ranking of these samples.

    pos_label : label, default=None
        Label of the class whose probabilities a 1-d array contains. By default, the
        second of the two labels.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`. By default, the sorted distinct values of
        `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights, as in :func:`aurc_loss`.

    Returns
    -------
    excess : float
        Excess area, in [0, 1].

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities, or the weights sum to less than one.

    Notes
    -----
    The "asymptotic" area is :math:`r + (1 - r) \log(1 - r)` for the error rate
    :math:`r` [1]_. A perfect ranking of :math:`n` samples therefore has an excess of up
    to :math:`r / n`, and of 0 with "finite".

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
    mass, total_loss, _ = rank(
        y_true, y_proba, confidence, "zero_one", labels, sample_weight, pos_label
    )
    area = ESTIMATORS["mean"](mass, total_loss)
    if optimum == "finite":
        # All correct samples before all wrong ones, in parts of the same size as above,
        # so that a perfect ranking has the same rounding errors.
        best_mass = np.append(mass - total_loss, total_loss)
        best_loss = np.append(np.zeros_like(mass), total_loss)
        seen = best_mass > 0
        return area - ESTIMATORS["mean"](best_mass[seen], best_loss[seen])
    risk = total_loss.sum() / mass.sum()
    return area - float(risk + xlogy(1 - risk, 1 - risk))


@validate_params({**RANKING, **LOSS})
def augrc_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence: Confidence = "msp",
    loss: Loss = "zero_one",
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Area under the generalised risk-coverage curve (AUGRC).

    The generalised risk is the fraction of all samples that are accepted and wrong,
    that is, risk times coverage. The AUGRC is its mean over coverages: the mean
    probability of an undetected failure. Lower is better; 0 is best. Chance level is
    half the error rate.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class.

    confidence : str, callable or array-like of shape (n_samples,), default="msp"
        Confidence by which the samples are ranked, as in :func:`risk_coverage_curve`.

    loss : {"zero_one", "log"} or callable, default="zero_one"
        Loss that is summed, as in :func:`risk_coverage_curve`.

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
    augrc : float
        Area under the curve, in [0, 1/2] for the loss "zero_one".

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities, or the confidence is unknown or NaN.

    See Also
    --------
    aurc_loss : Area under the risk-coverage curve (AURC).

    Notes
    -----
    In :func:`aurc_loss`, a wrong prediction among the most confident samples has a much
    larger weight than one among the least confident. Here, the weights are proportional
    to the rank [1]_: without ties, the weight of the k-th most confident sample is
    :math:`(n - k + 1/2) / n`. The weight in :func:`sklearn_calib.losses.aurc_loss` with
    ``weights="sele"`` is larger by half a rank.

    With the error rate :math:`r` and the AUROC :math:`a` of
    :func:`failure_auroc_score`, the AUGRC is :math:`r (1 - r) (1 - a) + r^2 / 2`. The
    authors report it multiplied by 1000.

    References
    ----------
    .. [1] J. Traub, T. J. Bungert, C. T. Lüth, M. Baumgartner, K. H. Maier-Hein,
       L. Maier-Hein and P. F. Jaeger, "Overcoming Common Flaws in the Evaluation of
       Selective Classification Systems", NeurIPS 2024.

    Examples
    --------
    >>> from sklearn_calib.metrics import augrc_loss
    >>> augrc_loss([0, 1, 0, 1], [0.1, 0.9, 0.8, 0.7])
    0.09375
    """
    mass, total_loss, _ = rank(
        y_true, y_proba, confidence, loss, labels, sample_weight, pos_label
    )
    coverage, risk = curve(mass, total_loss)
    generalised = np.append(0.0, coverage * risk)
    return float(trapezoid(generalised, np.append(0.0, coverage)))
