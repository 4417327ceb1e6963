"""Areas under the risk-coverage curve and under the generalised one."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import trapezoid
from scipy.special import xlogy

from sklearn_calib._core.risk_coverage import (
    ESTIMATORS,
    LOSS,
    RANKING,
    Loss,
    curve,
    rank,
)
from sklearn_calib._core.typing import Confidence
from sklearn_calib._core.validation import StrOptions, validate_params


@validate_params(
    {**RANKING, **LOSS, "estimator": [StrOptions(set(ESTIMATORS))]},
    prefer_skip_nested_validation=True,
)
def aurc_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence: Confidence = "msp",
    loss: Loss = "zero_one",
    estimator: str = "mean",
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
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

    confidence : str, callable or array-like of shape (n_samples,), default="msp"
        What the samples are ranked by, as in :func:`risk_coverage_curve`.

    loss : {"zero_one", "log"} or callable, default="zero_one"
        What is averaged, as in :func:`risk_coverage_curve`.

    estimator : {"mean", "harmonic", "population", "trapezoid"}, default="mean"
        How the area under the curve of finitely many samples is taken:

        - "mean": the mean of the risks at every coverage;
        - "harmonic": the same number, written as a weighted mean of the losses;
        - "population": the weights that are in the limit of many samples, which
          training calls "log";
        - "trapezoid": straight lines between the thresholds. It needs no count of
          samples, hence any scale of the weights will do.

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples, which count repetitions: their scale matters, as the
        number of samples does, and they must not sum to less than one.

    Returns
    -------
    aurc : float
        Area; in [0, 1] with the loss "zero_one".

    Raises
    ------
    ValueError
        If the labels do not match the columns, or `y_proba` holds anything but
        probabilities, or the weights sum to less than one, or the confidence is
        unknown or NaN.

    See Also
    --------
    excess_aurc_loss : What the ranking alone costs.
    augrc_loss : An area that does not favour the most confident samples.
    sklearn_calib.losses.aurc_loss : The area of a batch, to train with.

    Notes
    -----
    The value is :math:`\frac{1}{n} \sum_{k=1}^n \frac{1}{k} \sum_{i=1}^k \ell_{(i)}`
    with the losses in the order of decreasing confidence [1]_. With the harmonic
    numbers :math:`H_k` it is :math:`\frac{1}{n} \sum_k (H_n - H_{k-1}) \ell_{(k)}`, and
    "population" is :math:`\frac{1}{n} \sum_k \log\frac{n+1}{k} \ell_{(k)}`, with the
    rank :math:`r = n + 1 - k` the weight :math:`-\log(1 - r / (n + 1))` of [2]_.
    "trapezoid" is that of [3]_, level before the first threshold.

    Samples of equal confidence may stand in any order; the value is the mean over all
    their orders, hence it does not depend on the order of the rows. ("trapezoid" joins
    the thresholds instead.) Other packages leave it to their sort; the code of [1]_
    divides by one sample too many.

    Without ties, and with ``loss="log"``, "population" is
    :func:`sklearn_calib.losses.aurc_loss` with ``weights="log"``, and "mean" and
    "harmonic" are that with ``weights="harmonic"``. There, samples that tie have the
    weight of their mean rank, here the mean of their weights.

    For given losses no confidence has a lower area, except by "trapezoid", than one
    that ranks the samples by their loss. With the "log" loss and the "population"
    weights that area is at least :math:`\log 2 \, \frac{n r^2 + r}{2 (n + 1)}` for the
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
    mass, total_loss, _ = rank(y_true, y_proba, confidence, loss, labels, sample_weight)
    return ESTIMATORS[estimator](mass, total_loss)


@validate_params(RANKING, prefer_skip_nested_validation=True)
def excess_aurc_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence: Confidence = "msp",
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Area under the risk-coverage curve in excess of a perfect ranking, E-AURC.

    The part of :func:`aurc_loss` that is not due to the error rate: what it costs that
    some wrong predictions are more confident than right ones. 0 is best.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class.

    confidence : str, callable or array-like of shape (n_samples,), default="msp"
        What the samples are ranked by, as in :func:`risk_coverage_curve`.

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
    mass, total_loss, _ = rank(
        y_true, y_proba, confidence, "zero_one", labels, sample_weight
    )
    risk = total_loss.sum() / mass.sum()
    return ESTIMATORS["mean"](mass, total_loss) - float(
        risk + xlogy(1 - risk, 1 - risk)
    )


@validate_params({**RANKING, **LOSS}, prefer_skip_nested_validation=True)
def augrc_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence: Confidence = "msp",
    loss: Loss = "zero_one",
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Area under the generalised risk-coverage curve, AUGRC.

    The generalised risk is the share of all samples that are answered and wrong: risk
    times coverage. Its mean over coverages is the risk of a failure that is not
    noticed, half the error rate of a classifier whose confidence says nothing. 0 is
    best.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class.

    confidence : str, callable or array-like of shape (n_samples,), default="msp"
        What the samples are ranked by, as in :func:`risk_coverage_curve`.

    loss : {"zero_one", "log"} or callable, default="zero_one"
        What is summed, as in :func:`risk_coverage_curve`.

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples.

    Returns
    -------
    augrc : float
        Area; in [0, 1/2] with the loss "zero_one".

    Raises
    ------
    ValueError
        If the labels do not match the columns, or `y_proba` holds anything but
        probabilities, or the confidence is unknown or NaN.

    See Also
    --------
    aurc_loss : The area under the risk of what is answered.

    Notes
    -----
    In :func:`aurc_loss` a wrong prediction among the most confident weighs many times
    one among the least confident; here the weights are proportional to the rank [1]_.
    Without ties that of the k-th is :math:`(n - k + 1/2) / n`; in training,
    ``weights="sele"`` of :func:`sklearn_calib.losses.aurc_loss` is half a rank more.

    With the error rate :math:`r` and the AUROC :math:`a` of
    :func:`failure_auroc_score`, it is :math:`r (1 - r) (1 - a) + r^2 / 2`. The authors
    print it times 1000.

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
    mass, total_loss, _ = rank(y_true, y_proba, confidence, loss, labels, sample_weight)
    coverage, risk = curve(mass, total_loss)
    generalised = np.append(0.0, coverage * risk)
    return float(trapezoid(generalised, np.append(0.0, coverage)))
