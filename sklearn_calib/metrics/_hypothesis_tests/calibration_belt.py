"""Calibration test of the calibration belt (GiViTI)."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import UndefinedMetricWarning

from sklearn_calib._solvers.belt_polynomials import (
    FIRST,
    UNDEFINED,
    belt_sample,
    select_polynomial,
)
from sklearn_calib._validation.declarations import (
    BETWEEN_0_AND_1,
    COLUMN,
    Interval,
    StrOptions,
    validate_params,
)
from sklearn_calib._validation.fit_warnings import warn
from sklearn_calib._validation.samples import read_samples


class CalibrationBeltResult(NamedTuple):
    """Statistic, p-value, and degree of the selected polynomial."""

    statistic: float
    pvalue: float
    degree: float


@validate_params(
    {
        **COLUMN,
        "validation": [StrOptions({*FIRST})],
        "max_degree": [Interval(Integral, 2, 4, closed="both")],
        "significance_level": BETWEEN_0_AND_1,
    }
)
def calibration_belt_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    mode: str | None = None,
    pos_label: Any = None,
    validation: str = "external",
    max_degree: int = 4,
    significance_level: float = 0.05,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> CalibrationBeltResult:
    r"""Calibration belt test (GiViTI): likelihood ratio test with a polynomial.

    The outcome is regressed on a polynomial in the predicted log-odds, whose degree is
    selected by likelihood ratio tests. The test compares this regression with the
    predictions themselves. A small p-value is evidence against calibration. Unlike the
    Hosmer-Lemeshow test, it has no bins.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class, which is the second of the two labels.

    mode : {"positive", "top_label"}, default=None
        Probability that is evaluated: that of the positive class (of two), or that of
        the predicted class. By default, "positive" for two classes and "top_label" for
        more.

    pos_label : label, default=None
        Label of the positive class of a binary problem. It sets the mode to "positive";
        a 1-d array then contains the probabilities of this class. By default, the
        second of the two labels.

    validation : {"external", "internal"}, default="external"
        Whether the data are independent of the training data, or are the training data
        of a logistic regression without penalty. On its training data, such a
        regression has the slope 1 and the intercept 0, so that the first polynomial has
        the degree 2 instead of 1. Other classifiers cannot be tested on their training
        data.

    max_degree : int, default=4
        Largest degree of the polynomial, from 2 to 4.

    significance_level : float, default=0.05
        Significance level at which the degree is increased, in (0, 1).

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`, such as `estimator.classes_`. By default,
        the sorted distinct values of `y_true`, which must then contain every class.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. They are scaled to sum to the effective number of samples, so
        that unequal weights are worth fewer samples. The p-value is then approximate.

    Returns
    -------
    result : CalibrationBeltResult
        Named tuple of the `statistic`, the `pvalue` and the `degree` of the polynomial.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities.

    Warns
    -----
    UndefinedMetricWarning
        If the regression has no estimate: because only one outcome occurs, the
        probabilities separate the outcomes, or too few probabilities are distinct. All
        numbers are then nan.

    See Also
    --------
    sklearn_calib.displays.CalibrationBeltDisplay : Figure of the belt.
    recalibration_test : Test with a straight line instead of a polynomial.
    hosmer_lemeshow_test : Test with bins.

    Notes
    -----
    With the degree m, the statistic is twice the difference between the largest
    log-likelihood of

    .. math:: \log \frac{P(y_i = 1)}{P(y_i = 0)} =
        \sum_{j=0}^m \beta_j \left(\log \frac{p_i}{1 - p_i}\right)^j

    and the log-likelihood of the predictions. The degree starts at 1 (for internal
    validation at 2) and is increased as long as the likelihood ratio test of the next
    degree is significant. Given m, the statistic of calibrated predictions is
    distributed as the sum of a chi-square variable with 2 degrees of freedom (internal:
    1) and for each added degree one with 1 degree of freedom, conditional on being
    significant. The p-value is computed from this distribution, by quadrature.

    The test was proposed by Nattino, Finazzi and Bertolini (2014), and is implemented
    here as the R package givitiR describes it [1]_. For the data of that package, the
    results are those of its vignette.

    If a true outcome has the probability 0, the statistic is infinite and the p-value
    is 0, because this is impossible for a calibrated classifier. If the regression has
    no estimate, the degree is then the first. In the regression,
    zeros of p and of 1 - p are then replaced by half of the smallest of the others.
    All other samples with the probability 0 or 1 are correctly predicted and are
    ignored, because they are not evidence against calibration.

    References
    ----------
    .. [1] G. Nattino, S. Finazzi, G. Bertolini, C. Rossi and G. Carrara, "givitiR: The
       GiViTI Calibration Test and Belt", R package version 1.3, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.metrics import calibration_belt_test
    >>> rng = np.random.default_rng(0)
    >>> proba = rng.uniform(size=500)
    >>> y_true = rng.uniform(size=500) < proba  # perfectly calibrated
    >>> calibration_belt_test(y_true, proba).pvalue > 0.05
    True
    >>> calibration_belt_test(y_true, proba**2).pvalue < 0.001
    True
    """
    data = y_true, y_proba, labels, sample_weight, mode, pos_label
    value, outcome, weight = read_samples(*data, of_two="positive").column()
    sample = belt_sample(value, outcome, weight)
    selected = select_polynomial(sample, validation, max_degree, significance_level)
    if selected is None and np.isinf(sample.loss):
        return CalibrationBeltResult(np.inf, 0.0, FIRST[validation][1])
    if selected is None:
        warn(
            f"The calibration belt test is not defined because {UNDEFINED}. Its result "
            "is set to NaN.",
            UndefinedMetricWarning,
        )
        return CalibrationBeltResult(np.nan, np.nan, np.nan)
    return CalibrationBeltResult(
        selected.statistic, selected.pvalue, selected.polynomial.degree
    )
