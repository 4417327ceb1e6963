"""Likelihood ratio test of the logistic recalibration."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2
from sklearn.exceptions import UndefinedMetricWarning

from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import TARGETS, validate_params
from sklearn_calib._validation.labels import classes_of
from sklearn_calib._validation.samples import (
    TESTED,
    check_targets,
    effective_weights,
    whole_or_top_label,
)
from sklearn_calib.metrics._hypothesis_tests.hosmer_lemeshow import ChiSquareResult
from sklearn_calib.metrics._hypothesis_tests.multinomial_recalibration import (
    fit_recalibration,
    log_loss_of_predictions,
    log_ratios,
    reference_code,
)
from sklearn_calib.metrics._hypothesis_tests.spiegelhalter import has_impossible_label


@validate_params(
    {**TARGETS, "mode": [TESTED], "reference": [object]},
    prefer_skip_nested_validation=True,
)
def recalibration_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    mode: str = "canonical",
    reference: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> ChiSquareResult:
    r"""Recalibration test: likelihood ratio test of calibration slopes and intercepts.

    The null hypothesis is that all slopes of the logistic recalibration are 1 and all
    intercepts 0. A small p-value is evidence against calibration.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class.

    mode : {"canonical", "top_label"}, default="canonical"
        Whether the probabilities of all classes are tested, or only that of the
        predicted class.

    reference : label, default=None
        Label of the class with which the others are compared. By default, the class of
        the first column. For two classes, the choice does not matter. It must be
        None for "top_label".

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`. By default, the sorted distinct values of
        `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. They are scaled to sum to the effective number of samples, so
        that unequal weights are worth fewer samples. The p-value is then approximate.

    Returns
    -------
    result : ChiSquareResult
        Named tuple of the `statistic`, the `pvalue`, and the degrees of freedom `df`.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, `y_proba` contains values
        that are not probabilities, or `reference` is not a label or is given with
        `mode="top_label"`.

    Warns
    -----
    UndefinedMetricWarning
        If the recalibration has no estimate: because a class is absent, or the
        probabilities are equal or separate the outcomes. Statistic and p-value are then
        nan.

    See Also
    --------
    calibration_slope : The slopes and intercepts, with intervals.
    calibration_belt_test : Test with a polynomial, for the probability of one class.

    Notes
    -----
    The statistic is twice the difference between the largest log-likelihood of

    .. math:: \log \frac{P(y_i = k)}{P(y_i = r)} = a_k + b_k \log \frac{p_{ik}}{p_{ir}},
        \quad k \ne r,

    and the log-likelihood of the predictions. Its distribution is approximately
    chi-square with `2 * (n_classes - 1)` degrees of freedom [1]_. For two classes, it
    is the test of Cox's recalibration.

    If a true class has the probability 0, the statistic is infinite and the p-value is
    0, because this is impossible for a calibrated classifier. Other probabilities of 0
    remain 0 in the model.

    References
    ----------
    .. [1] K. Van Hoorde, Y. Vergouwe, D. Timmerman, S. Van Huffel, E. W. Steyerberg and
       B. Van Calster, "Assessing Calibration of Multinomial Risk Prediction Models",
       Statistics in Medicine 33, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.metrics import recalibration_test
    >>> rng = np.random.default_rng(2)
    >>> proba = rng.dirichlet([1, 1, 1], size=500)
    >>> y_true = (rng.random((500, 1)) > proba.cumsum(axis=1)).sum(axis=1)  # calibrated
    >>> result = recalibration_test(y_true, proba)
    >>> result.pvalue > 0.05, result.df
    (True, 4)
    >>> overconfident = proba**2 / (proba**2).sum(axis=1, keepdims=True)
    >>> recalibration_test(y_true, overconfident).pvalue < 0.001
    True
    """
    proba, codes, weight = check_targets(y_true, y_proba, labels, sample_weight)
    proba, codes = whole_or_top_label(proba, codes, mode)
    if mode == "top_label" and reference is not None:
        raise ValueError(
            f'reference must be None with mode="top_label", got {shown(reference)}. '
            "Correct predictions are compared with wrong ones."
        )
    code = reference_code(reference, classes_of(y_true, labels))
    weight = effective_weights(weight, len(codes))
    df = 2 * (proba.shape[1] - 1)
    if has_impossible_label(proba, codes, weight):
        return ChiSquareResult(np.inf, 0.0, df)
    data = log_ratios(proba, codes, weight, code, zeros_remain=True)
    fit = None
    if len(np.unique(codes[weight > 0])) == proba.shape[1]:
        fit = fit_recalibration(data, slopes=True)
    if fit is None:
        warnings.warn(
            "The recalibration test is not defined because a class is absent, or the "
            "predicted probabilities are equal or separate the outcomes. Its result is "
            "set to NaN.",
            UndefinedMetricWarning,
        )
        return ChiSquareResult(np.nan, np.nan, df)
    statistic = float(max(2 * (log_loss_of_predictions(data) - fit.loss), 0))
    return ChiSquareResult(statistic, float(chi2.sf(statistic, df)), df)
