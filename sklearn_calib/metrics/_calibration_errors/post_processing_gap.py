"""Post-processing gap: reduction of a loss by smooth recalibration."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from sklearn_calib._numerics.binning import distinct_values
from sklearn_calib._validation.declarations import (
    TARGETS,
    StrOptions,
    declare_interval,
    validate_params,
)
from sklearn_calib._validation.device_targets import evaluated_samples
from sklearn_calib._validation.types import Floats
from sklearn_calib.metrics._calibration_errors.lipschitz import minimize_lipschitz


@declare_interval(is_error=True, power=1)
@validate_params(
    {
        **TARGETS,
        "loss": [StrOptions({"log", "squared"})],
        "mode": [StrOptions({"positive", "top_label"}), None],
    },
    prefer_skip_nested_validation=True,
)
def post_processing_gap(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    loss: str = "log",
    mode: str | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Post-processing gap: largest reduction of the loss by a Lipschitz recalibration.

    It measures how much smooth post-hoc calibration can improve the loss. Lower is
    better: 0 means that no Lipschitz map reduces the loss.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class, which is the second of the two labels.

    loss : {"log", "squared"}, default="log"
        Loss of the evaluated probability: the log loss in nats, or the squared error.

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
    gap : float
        Mean loss minus the lowest mean loss after recalibration. In [0, 1] for the
        squared loss, in [0, 4] for the log loss.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities.

    Warns
    -----
    ConvergenceWarning
        If the optimisation does not converge to twelve digits.

    See Also
    --------
    expected_calibration_error : Gap between confidence and accuracy, estimated with
        bins.

    Notes
    -----
    For the squared loss, the maps are :math:`v \mapsto v + \eta(v)` from [0, 1] to [0,
    1] with a 1-Lipschitz update :math:`\eta` ([1]_, Definition 2.3). For the log loss,
    the update is applied to the logit of :math:`v`, is 1-Lipschitz and has absolute
    values of at most 4 ([1]_, Definition 4.3: the dual gap). Hence the maps are
    non-decreasing, and move close probabilities by similar amounts.

    Let :math:`s` be the smooth calibration error, the largest mean of
    :math:`\eta(v) (y - v)` over 1-Lipschitz functions :math:`\eta` with values in [-1,
    1]. The gap of the squared loss is between :math:`s^2` and :math:`2 s`. If
    :math:`\eta` is instead a 1/4-Lipschitz function of the logit, the gap of the log
    loss is between :math:`2 s^2` and :math:`4 s` ([1]_, Theorems 2.4 and 4.6).

    Probabilities of 0 and 1 have infinite logits, and an infinite log loss if they are
    wrong. They contribute the limit of the gap, which is 4 for a wrong probability.

    The gap is biased upward, because the map is fitted to the evaluated samples. For
    calibrated probabilities with a uniform distribution on [0, 1], it is about 0.010
    for 1000 samples and 0.0005 for 100,000 samples.

    The best map solves a convex optimisation problem with one variable for each
    distinct probability. This takes 0.04 s for 10,000 samples, and 1 s for 100,000.

    References
    ----------
    .. [1] J. Błasiok, P. Gopalan, L. Hu and P. Nakkiran, "When Does Optimizing a Proper
       Loss Yield Calibration?", NeurIPS 2023.

    .. [2] W. Liang, C. Dong, L. N. Zheng, W. E. Zhang and W. Chen, "Towards Trustworthy
       Deep Neural Network through Euclidean Distance", arXiv:2410.18321, 2025,
       definition 2.3.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.metrics import post_processing_gap
    >>> y_true = np.arange(100) % 10 < 7
    >>> round(post_processing_gap(y_true, np.full(100, 0.9)), 3)
    0.154
    >>> round(post_processing_gap(y_true, np.full(100, 0.9), loss="squared"), 3)
    0.04
    """
    confidence, correct, weight = evaluated_samples(
        y_true, y_proba, labels, sample_weight, mode, pos_label
    )
    value, fraction, frequency = distinct_values(confidence, correct, weight)
    gap = _log_gap if loss == "log" else _squared_gap
    return max(0.0, float(fraction @ gap(value, fraction, frequency)))


def _squared_gap(value: Floats, fraction: Floats, frequency: Floats) -> Floats:
    """Return the reduction of the mean squared loss by the best map at each value."""
    # The bound is never active, because frequencies are in [0, 1]. A bound of 1 would
    # be reached where a frequency of 0 is predicted as 1, and slow the method down.
    update = minimize_lipschitz(
        lambda x: 2 * fraction * (value + x - frequency),
        lambda _: 2 * fraction,
        np.diff(value),
        bound=2.0,
    )
    return -update * (update + 2 * (value - frequency))


def _log_gap(value: Floats, fraction: Floats, frequency: Floats) -> Floats:
    """Return the reduction of the mean log loss by the best map at each value."""
    score = logit(value)
    update = minimize_lipschitz(
        lambda x: fraction * (expit(score + x) - frequency),
        lambda x: fraction * expit(score + x) * expit(-score - x),
        np.diff(score),
        bound=4.0,
    )
    # The last term is log(1 + exp(score + update)) - log(1 + exp(score)), in a form
    # that also holds for infinite scores.
    return frequency * update - np.log1p(value * np.expm1(update))
