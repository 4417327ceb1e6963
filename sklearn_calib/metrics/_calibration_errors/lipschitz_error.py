"""Smooth calibration error (smCE), post-processing gap: Lipschitz functions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.lapack import dgtsv
from scipy.special import expit, logit
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib._numerics.binning import distinct_confidences
from sklearn_calib._validation.declarations import (
    COLUMN,
    MODE,
    TARGETS,
    Interval,
    StrOptions,
    declare_interval,
    validate_params,
)
from sklearn_calib._validation.samples import read_samples, samples_by_class
from sklearn_calib._validation.types import Array, Floats, Weights

# Each value has an upper and a lower limit: two rows of slacks and of dual variables.
SIDES = np.array([[1.0], [-1.0]])
# A step goes at most this fraction of the way to the nearest limit.
STEP_FRACTION = 0.995
# Smallest allowed ratio of a product of slack and dual variable to the mean product.
# Steps that leave this neighbourhood of the central path are rejected, as the method
# may cycle there.
CENTRAL = 1e-3
# For smaller spacing, the ratio of dual variable and slack would overflow.
SMALLEST_SPACING = 1e-100
# The focal losses and their default gamma, as in `sklearn_calib.losses`.
FOCAL_LOSSES = {"focal": 3.0, "focal_calibration": 2.0}
AT_LEAST_0 = Interval(Real, 0, None, closed="left")


@declare_interval(is_error=True)
@validate_params({**TARGETS, **MODE})
def smooth_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    mode: str | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Smooth calibration error (smCE): largest weighted mean of the residuals.

    The weights are a Lipschitz function of the confidence. Lower is better: 0 is best,
    1 is worst.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class, which is the second of the two labels.

    mode : {"top_label", "positive", "classwise"}, default=None
        Probability that is evaluated: that of the predicted class, of the positive
        class (of two), or of every class, where the errors are averaged over the
        classes. By default, "top_label" for a 2-d array and "positive" for a 1-d array.

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
    error : float
        Calibration error in [0, 1].

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
    smooth_expected_calibration_error : Smooth ECE (smECE), estimated with a kernel.
    post_processing_gap : Reduction of a loss by smooth recalibration.

    Notes
    -----
    For probabilities :math:`v_i` and outcomes :math:`y_i \in \{0, 1\}`, the error is

    .. math:: \max_\eta \frac{1}{n} \sum_i \eta(v_i) (y_i - v_i)

    over all 1-Lipschitz functions with values in [-1, 1] [1]_. In contrast to an error
    with bins, it is a continuous function of the probabilities. It determines the mean
    distance to the closest calibrated predictions up to a constant factor and a square
    root [2]_.

    The error is the solution of a linear program with one variable for each distinct
    probability. An interior-point method solves it in 0.03 s for 10,000 samples.

    For several classes, [3]_ (eq. 7) uses a Lipschitz function of all probabilities
    with one value for each class. For values in [-1, 1], this joint error is at least
    the number of classes times the error of the mode "classwise". It is not available,
    because it needs a constraint for each pair of samples.

    References
    ----------
    .. [1] S. M. Kakade and D. P. Foster, "Deterministic Calibration and Nash
       Equilibrium", Journal of Computer and System Sciences 74, 2008.

    .. [2] J. Błasiok, P. Gopalan, L. Hu and P. Nakkiran, "A Unifying Theory of Distance
       from Calibration", STOC 2023.

    .. [3] W. Liang, C. Dong, L. N. Zheng, W. E. Zhang and W. Chen, "Towards Trustworthy
       Deep Neural Network through Euclidean Distance", arXiv:2410.18321, 2025,
       definition 2.2.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.metrics import smooth_calibration_error
    >>> y_true = np.arange(100) % 10 < 7
    >>> round(smooth_calibration_error(y_true, np.full(100, 0.9)), 3)
    0.2
    """
    samples = read_samples(y_true, y_proba, labels, sample_weight, mode, pos_label)
    return float(np.mean([_smooth_error(*data) for data in samples_by_class(samples)]))


def _smooth_error(confidence: Floats, correct: Array, weight: Weights) -> float:
    """Return the smooth calibration error of one probability per sample."""
    value, fraction, frequency = distinct_confidences(confidence, correct, weight)
    residual = fraction * (frequency - value)
    worst = minimize_lipschitz(
        lambda _: -residual, np.zeros_like, np.diff(value), bound=1.0
    )
    return max(0.0, float(residual @ worst))


@declare_interval(is_error=True, power=1, unless={"loss": (*FOCAL_LOSSES,)})
@validate_params(
    {
        **COLUMN,
        "loss": [StrOptions({"log", "squared", *FOCAL_LOSSES})],
        "gamma": [AT_LEAST_0, None],
        "lambd": [AT_LEAST_0],
    }
)
def post_processing_gap(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    loss: str = "log",
    gamma: float | None = None,
    lambd: float = 1.0,
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

    loss : {"log", "squared", "focal", "focal_calibration"}, default="log"
        Loss of the evaluated probability: the log loss in nats, the squared error, or
        :func:`~sklearn_calib.losses.focal_loss` or
        :func:`~sklearn_calib.losses.focal_calibration_loss` for two classes.

    gamma : float, default=None
        Exponent of the focal losses, at least 0. By default, 3 for "focal" and 2 for
        "focal_calibration".

    lambd : float, default=1.0
        Weight, at least 0, of the squared distance in "focal_calibration".

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
        squared loss, in [0, 4] for the log loss, and at least 0 for the focal losses.

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

    For the focal losses, the maps are those of the squared loss ([2]_, Definition 2.3),
    and probabilities of 0 and 1 are clipped as in the log loss of scikit-learn. These
    losses are not proper, so their gap is also positive for calibrated probabilities.
    Contrary to Theorem 4.5 of [2]_, the gap of "focal_calibration" can be larger than
    that of "focal": with gamma 2, they are 0.468 and 0.405 for predictions of 0.9 with
    the frequency 0.7. A map for all probabilities of several classes is not available,
    because it needs a constraint for each pair of samples.

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
       Deep Neural Network through Euclidean Distance", arXiv:2410.18321, 2025.

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
    samples = read_samples(y_true, y_proba, labels, sample_weight, mode, pos_label)
    data = distinct_confidences(*samples.column())
    if loss in FOCAL_LOSSES:
        gamma = FOCAL_LOSSES[loss] if gamma is None else float(gamma)
        drop = _focal_gap(*data, gamma, 0.0 if loss == "focal" else float(lambd))
    else:
        drop = (_log_gap if loss == "log" else _squared_gap)(*data)
    return max(0.0, float(data[1] @ drop))


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


def _focal_gap(
    value: Floats, fraction: Floats, frequency: Floats, gamma: float, lambd: float
) -> Floats:
    """Return the reduction of the focal calibration loss by the best map."""
    least = np.finfo(np.float64).eps
    value = np.clip(value, least, 1 - least)

    def derivatives(update: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the mean loss at each value, and its first and second derivative."""
        mapped, rest = np.clip(value + update, least, 1 - least), 1 - frequency
        positive, slope, curvature = _focal_terms(mapped, gamma)
        negative, other_slope, other_curvature = _focal_terms(1 - mapped, gamma)
        # Summed over both classes.
        distance = 2 * (frequency * (1 - mapped) ** 2 + rest * mapped**2)
        return (
            frequency * positive + rest * negative + lambd * distance,
            frequency * slope - rest * other_slope + 4 * lambd * (mapped - frequency),
            frequency * curvature + rest * other_curvature + 4 * lambd,
        )

    # The slopes are infinite at 0 and 1, and moderate half-way to a constant map of
    # 1/2.
    weight = fraction / (1 + lambd)
    update = minimize_lipschitz(
        lambda x: weight * derivatives(x)[1],
        lambda x: weight * derivatives(x)[2],
        np.diff(value),
        bound=np.array([1 - value, value]),
        start=(0.5 - value) / 2,
    )
    return derivatives(np.zeros_like(value))[0] - derivatives(update)[0]


def _focal_terms(proba: Floats, gamma: float) -> tuple[Floats, Floats, Floats]:
    """Return the focal loss of a probability, and its first and second derivative."""
    rest, log = 1 - proba, np.log(proba)
    weight = rest**gamma
    slope = gamma * log / rest - 1 / proba
    curvature = gamma * (1 - gamma) * log / rest**2 + 2 * gamma / (rest * proba)
    return -weight * log, weight * slope, weight * (curvature + 1 / proba**2)


def minimize_lipschitz(
    slope: Callable[[Floats], Floats],
    curvature: Callable[[Floats], Floats],
    spacing: Floats,
    bound: float | Floats,
    start: Floats | None = None,
    *,
    tolerance: float = 1e-13,
    max_iter: int = 500,
) -> Floats:
    """Minimise a sum of convex functions f_i(x_i) under Lipschitz constraints.

    The constraints are ``abs(x[i + 1] - x[i]) <= spacing[i]`` and
    ``abs(x[i]) <= bound``, or ``-bound[1] <= x <= bound[0]``.

    Parameters
    ----------
    slope, curvature : callable
        Functions of x that return the first and second derivatives of all f_i. Slopes
        should be of the order of 1 / n_values, and third derivatives not larger than
        second derivatives.

    spacing : ndarray of shape (n_values - 1,)
        Positive, may be infinite.

    bound : float or ndarray of shape (2, n_values)
        Positive.

    start : ndarray of shape (n_values,), default=None
        Where to start, at most half-way from 0 to any of the limits. By default, 0.

    tolerance : float, default=1e-13
        Tolerance of the sum above its minimum.

    max_iter : int, default=500
        Maximum number of steps. For up to 100,000 values, 10 to 50 steps are usual.

    Returns
    -------
    x : ndarray of shape (n_values,)
        The minimiser; it satisfies the constraints up to rounding.

    Warns
    -----
    ConvergenceWarning
        If the method does not converge in `max_iter` steps.

    Notes
    -----
    Mehrotra's primal-dual interior point method [1]_. As the constraints only
    involve neighbours, each step solves a tridiagonal system.

    References
    ----------
    .. [1] S. Mehrotra, "On the Implementation of a Primal-Dual Interior Point Method",
       SIAM Journal on Optimization 2, 1992.
    """
    x = np.zeros(len(spacing) + 1) if start is None else start
    # Differences of values within the bounds are at most twice the bound.
    spacing = np.clip(spacing, SMALLEST_SPACING, 4 * np.max(bound))
    bound = np.broadcast_to(bound, (2, len(x)))
    limits = np.hstack([np.tile(spacing, (2, 1)), bound])
    slack = limits - SIDES * np.append(np.diff(x), x)
    # Differences of `start` are rounded, which matters for tiny spacing.
    slack = np.maximum(slack, limits / 2)
    dual = 0.01 / len(x) / slack
    # Equal for both signs: the rounding error of a large net force on a tiny spacing
    # would move other differences out of their limits.
    dual[:, : len(spacing)] = 0.01 / len(x) / spacing
    for _ in range(max_iter):
        residual = slope(x) + _adjoint(dual[0] - dual[1])
        total = np.vdot(dual, slack)
        if max(total, np.abs(residual).sum()) < tolerance:
            return np.clip(x, -bound[1], bound[0])  # for rounding errors
        step = _newton_step(residual, curvature(x), slack, dual)
        for products in _products(step, slack, dual):
            dx, *change = step(products)
            # With this bound on the third derivative, a damped step decreases f.
            # Undamped steps may oscillate forever, for example for the log loss.
            largest = np.abs(dx).max()
            damped = math.log1p(largest) / largest if largest > 1e-8 else 1.0
            length = min(damped, STEP_FRACTION * _longest(slack, dual, *change))
            new = slack + length * change[0], dual + length * change[1]
            if (new[0] * new[1]).min() > CENTRAL * np.mean(new[0] * new[1]):
                break
        x = x + length * dx
        slack, dual = new
    warnings.warn(
        f"The minimisation did not converge in {max_iter} steps: the minimised sum may "
        f"be {total:.2g} above its minimum.",
        ConvergenceWarning,
    )
    return x


def _adjoint(forces: Floats) -> Floats:
    """Return the total force on each x, from constraints on differences and on x."""
    n_spacings = len(forces) // 2
    return forces[n_spacings:] - np.diff(forces[:n_spacings], prepend=0.0, append=0.0)


def _newton_step(
    residual: Floats, curvature: Floats, slack: Floats, dual: Floats
) -> Callable[[Any], tuple[Floats, Floats, Floats]]:
    """Return a function that maps target products of slack and dual to a step.

    The unknowns are x_1, force_1, x_2, force_2, ... in this order; the forces belong to
    the constraints on differences. They are not eliminated, as the large stiffness of
    an almost active constraint would absorb the curvature by rounding.
    """
    n_spacings = len(residual) - 1
    size = max(1, 2 * n_spacings)  # LAPACK does not take empty arrays
    stiffness = (dual / slack).sum(axis=0)
    system = np.zeros((3, 2 * n_spacings + 1))
    system[1, ::2] = curvature + stiffness[n_spacings:]
    system[1, 1::2] = -1 / stiffness[:n_spacings]
    system[0, 1::2], system[0, 2::2] = -1.0, 1.0
    system[2, :-1] = system[0, 1:]

    def step(products: Any) -> tuple[Floats, Floats, Floats]:
        wanted = products / slack - dual
        force = wanted[0] - wanted[1]
        right = np.empty(2 * n_spacings + 1)
        right[::2] = -residual - force[n_spacings:]
        right[1::2] = -force[:n_spacings] / stiffness[:n_spacings]
        # The checks of `scipy.linalg` take longer than the solution.
        *_, solution, failure = dgtsv(
            system[2, :size], system[1], system[0, -size:], right
        )
        if failure:
            raise np.linalg.LinAlgError("The curvature must be finite and positive.")
        dx = solution[::2]
        # More precise than the difference of dx, which has the rounding errors of x.
        difference = (solution[1::2] - force[:n_spacings]) / stiffness[:n_spacings]
        change = -SIDES * np.append(difference, dx)
        return dx, change, wanted - dual / slack * change

    return step


def _products(
    step: Callable[[Any], tuple[Floats, Floats, Floats]], slack: Floats, dual: Floats
) -> Iterator[Any]:
    """Yield target products of slack and dual, for a long step and for a safe one."""
    _, *change = step(0.0)
    length = _longest(slack, dual, *change)
    mean = np.mean(slack * dual)
    ahead = np.mean((slack + length * change[0]) * (dual + length * change[1]))
    # The correction is scaled by the squared length of the step that it corrects.
    yield (ahead / mean) ** 3 * mean - length**2 * change[0] * change[1]
    yield mean / 2


def _longest(
    slack: Floats, dual: Floats, slack_change: Floats, dual_change: Floats
) -> float:
    """Return the longest step up to 1 that keeps slacks and duals non-negative."""
    ratio = max((-slack_change / slack).max(), (-dual_change / dual).max())
    return min(1.0, 1 / ratio) if ratio > 0 else 1.0
