"""Calibration decision loss (CDL)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from sklearn_calib._numerics.binning import sums_by_value
from sklearn_calib._validation.declarations import (
    COLUMN,
    declare_interval,
    validate_params,
)
from sklearn_calib._validation.samples import read_samples
from sklearn_calib._validation.types import Floats


@declare_interval(is_error=True)
@validate_params(COLUMN)
def calibration_decision_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    mode: str | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Calibration decision loss (CDL): largest gain of a decision by recalibration.

    A decision maker trusts the probabilities and chooses the best action for them. The
    loss is the largest mean payoff that recalibration of the probabilities would add,
    over all decision tasks with payoffs in [0, 1] and all increasing recalibration
    maps. Lower is better.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class, which is the second of the two labels.

    mode : {"top_label", "positive"}, default=None
        Probability that is evaluated: that of the predicted class, or that of the
        positive class (of two). By default, "top_label" for a 2-d array and "positive"
        for a 1-d array.

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
    loss : float
        Largest gain, in [0, 1].

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities.

    See Also
    --------
    expected_cost_loss : Cost of the decisions for given costs.
    cutoff_calibration_error : Largest gap over intervals of probabilities.

    Notes
    -----
    The loss of [1]_ allows any recalibration map. For a finite sample without ties,
    such a map could predict each outcome, so only increasing maps are allowed here, as
    in [2]_. Isotonic regression is the best of them for all tasks.

    A task with two actions has a threshold v: one action pays :math:`y - v`, the other
    0. With the isotonic regression q, recalibration adds

    .. math:: R(v) = \frac{1}{n} \sum_i (y_i - v) (1[q_i \ge v] - 1[p_i \ge v]).

    All tasks are mixtures of these. Because of the bounds on the payoff, the loss is 2
    C(1/2), where C is the smallest concave function with :math:`C \ge R`. It is
    computed by sorting.

    The estimate is biased upward, because isotonic regression fits the noise too: for
    calibrated predictions, uniform in [0, 1], its mean is 0.062 for 100 samples, 0.017
    for 1000 and 0.004 for 10,000.

    References
    ----------
    .. [1] L. Hu and Y. Wu, "Calibration Error for Decision Making", FOCS 2024,
       arXiv:2404.13503.

    .. [2] P. Gopalan, K. Stavropoulos, K. Talwar and P. Tankala, "Efficient Calibration
       for Decision Making", arXiv:2511.13699, 2025.

    Examples
    --------
    >>> from sklearn_calib.metrics import calibration_decision_loss
    >>> round(calibration_decision_loss([0, 0, 1, 1], [0.2, 0.6, 0.6, 0.9]), 3)
    0.1
    """
    samples = read_samples(y_true, y_proba, labels, sample_weight, mode, pos_label)
    value, mass, positive = sums_by_value(*samples.column())
    value, total = value.astype(np.float64), mass.sum()
    mass, positive = mass / total, positive / total
    best = isotonic_regression(positive / mass, weights=mass).x
    thresholds = np.unique(np.concatenate([value, best, [0, 0.5, 1]]))
    mass, positive = (np.append(np.cumsum(x[::-1])[::-1], 0) for x in (mass, positive))

    def payoff(predicted: Floats, side: Literal["left", "right"]) -> Floats:
        """Return the payoff at each threshold of acting from there on."""
        start = np.searchsorted(predicted, thresholds, side=side)
        return positive[start] - thresholds * mass[start]

    # The payoff jumps where a prediction equals the threshold.
    trusted = np.minimum(payoff(value, "left"), payoff(value, "right"))
    gain = payoff(best, "left") - trusted
    # Slopes over smaller widths may overflow.
    widths = np.maximum(np.diff(thresholds), np.finfo(np.float64).tiny)
    slopes = isotonic_regression(
        np.diff(gain) / widths, weights=widths, increasing=False
    ).x
    is_below = thresholds[1:] <= 0.5
    half = gain[0] + slopes[is_below] @ widths[is_below]
    return float(np.clip(2 * half, 0, 1))
