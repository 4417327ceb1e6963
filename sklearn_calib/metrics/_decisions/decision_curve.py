"""Net benefit of decisions at a threshold."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from sklearn_calib._numerics.net_benefit import (
    check_thresholds,
    net_benefit,
    net_benefit_of_all,
    number_reached,
    sums_by_number,
)
from sklearn_calib._validation.declarations import (
    BETWEEN_0_AND_1,
    COLUMN,
    validate_params,
)
from sklearn_calib._validation.samples import read_samples
from sklearn_calib._validation.types import Floats


class NetBenefitCurve(NamedTuple):
    """Net benefit of a model, and of treating all samples, at each threshold."""

    thresholds: Floats
    net_benefit: Floats
    treat_all: Floats


@validate_params({**COLUMN, "threshold": BETWEEN_0_AND_1})
def net_benefit_score(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    threshold: float,
    mode: str | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Net benefit of treating the samples whose probability is at least a threshold.

    The threshold is the probability at which benefit and harm of a treatment, or of any
    other action, balance: at 0.2, a true positive is worth as much as four false
    positives cost. The net benefit is the benefit of the true positives minus the harm
    of the false positives, in units of a true positive for each sample. Higher is
    better. It is 0 if no sample is treated, and at most the frequency of the positive
    class.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class, which is the second of the two labels.

    threshold : float
        Threshold probability, in (0, 1).

    mode : {"positive", "top_label"}, default=None
        Probability on which decisions depend: that of the positive class (of two), or
        that of the predicted class, where correct predictions are positive. By default,
        "positive" for two classes and "top_label" for more.

    pos_label : label, default=None
        Label of the positive class of a binary problem. It sets the mode to "positive";
        a 1-d array then contains the probabilities of this class. By default, the
        second of the two labels.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`, such as `estimator.classes_`. By default,
        the sorted distinct values of `y_true`, which must then contain every class.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. A weight of 2 is equivalent to including the sample twice.

    Returns
    -------
    score : float
        Net benefit, at most 1. It may be negative.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities.

    See Also
    --------
    net_benefit_curve : Net benefit at several thresholds.
    expected_cost_loss : Cost of decisions for any costs and any number of classes.
    sklearn_calib.displays.DecisionCurveDisplay : Figure of the curve.

    Notes
    -----
    With the threshold t, it is :math:`\frac{TP}{n} - \frac{FP}{n} \frac{t}{1 - t}`
    [1]_, where samples with :math:`p_i \ge t` count as predicted positive. Use
    :func:`bootstrap_interval` for an interval. For one of several classes, pass `y_true
    == label` and the column of the class.

    References
    ----------
    .. [1] A. J. Vickers and E. B. Elkin, "Decision Curve Analysis: A Novel Method for
       Evaluating Prediction Models", Medical Decision Making 26, 2006.

    Examples
    --------
    >>> from sklearn_calib.metrics import net_benefit_score
    >>> net_benefit_score([0, 0, 1, 1], [0.1, 0.3, 0.6, 0.9], threshold=0.2)
    0.4375
    """
    curve = _curve(y_true, y_proba, [threshold], mode, pos_label, labels, sample_weight)
    return float(curve.net_benefit[0])


@validate_params({**COLUMN, "thresholds": ["array-like", None]})
def net_benefit_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    thresholds: ArrayLike | None = None,
    mode: str | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> NetBenefitCurve:
    """Net benefit curve (decision curve): net benefit at each threshold.

    A model is useful at a threshold if its net benefit is above that of treating all
    samples, and above 0, which is that of treating none.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class, which is the second of the two labels.

    thresholds : array-like of shape (n_thresholds,), default=None
        Threshold probabilities in (0, 1). By default, 0.01, 0.02, ..., 0.99.

    mode : {"positive", "top_label"}, default=None
        Probability on which decisions depend, as in :func:`net_benefit_score`.

    pos_label : label, default=None
        Label of the positive class of a binary problem. It sets the mode to "positive";
        a 1-d array then contains the probabilities of this class. By default, the
        second of the two labels.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`, such as `estimator.classes_`. By default,
        the sorted distinct values of `y_true`, which must then contain every class.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. A weight of 2 is equivalent to including the sample twice.

    Returns
    -------
    curve : NetBenefitCurve
        Named tuple of the sorted distinct `thresholds`, the `net_benefit` of the model
        and that of treating all samples, `treat_all`, each of shape (n_thresholds,).

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities, or a threshold is not in (0, 1).

    See Also
    --------
    net_benefit_score : Net benefit at one threshold, with the formula.
    sklearn_calib.displays.DecisionCurveDisplay : Figure of the curve.

    Examples
    --------
    >>> from sklearn_calib.metrics import net_benefit_curve
    >>> curve = net_benefit_curve(
    ...     [0, 0, 1, 1], [0.1, 0.3, 0.6, 0.9], thresholds=[0.2, 0.5, 0.8]
    ... )
    >>> curve.net_benefit
    array([0.4375, 0.5   , 0.25  ])
    >>> curve.treat_all
    array([ 0.375,  0.   , -1.5  ])
    """
    return _curve(y_true, y_proba, thresholds, mode, pos_label, labels, sample_weight)


def _curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    thresholds: ArrayLike | None,
    mode: str | None,
    pos_label: Any,
    labels: ArrayLike | None,
    sample_weight: ArrayLike | None,
) -> NetBenefitCurve:
    at = check_thresholds(thresholds)
    data = y_true, y_proba, labels, sample_weight, mode, pos_label
    value, outcome, weight = read_samples(*data, of_two="positive").column()
    number = number_reached(value, at)
    sums = sums_by_number(number, outcome, weight, len(at))
    return NetBenefitCurve(at, net_benefit(*sums, at), net_benefit_of_all(*sums, at))
