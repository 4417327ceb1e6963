"""Focal posterior and focal temperature scaling, and their fits."""

import math
from collections.abc import Callable
from functools import cache
from numbers import Real
from typing import Any

import numpy as np
from scipy.optimize import brentq
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib._expressions.rows import focal_posterior, in_order, softmax
from sklearn_calib._expressions.symbol import Values
from sklearn_calib._numerics.posteriors import focal_terms
from sklearn_calib._numerics.sample_blocks import Blocks
from sklearn_calib._numerics.softmax import log_softmax, row_max
from sklearn_calib._solvers.newton import newton_steps
from sklearn_calib._solvers.temperature_fit import fit_temperature
from sklearn_calib._state.schema import NON_NEGATIVE, POSITIVE, Number
from sklearn_calib._validation.declarations import Interval, StrOptions
from sklearn_calib._validation.fit_warnings import warn
from sklearn_calib._validation.types import Floats
from sklearn_calib.calibrators._base.calibrator import Calibrator

GAMMA = {"gamma": [Interval(Real, 0, np.inf, closed="left"), StrOptions({"auto"})]}

# Upper bounds of the search for gamma; it ends where the likelihood decreases.
GAMMAS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)


class FocalPosterior(Calibrator):
    r"""Focal posterior: recover class posteriors of networks trained with focal loss.

    The focal loss is not a proper loss: a network that minimises its expectation
    predicts a known function of the class posterior. This calibrator inverts the
    function [1]_. It does not need data if gamma is known, and it does not change the
    order of the classes.

    Parameters
    ----------
    gamma : float or "auto", default="auto"
        Gamma of the focal loss that the network was trained with, at least 0. With 0,
        probabilities do not change. "auto" uses the gamma in [0, 20] with the lowest
        negative log-likelihood on the data of `fit`.

    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    gamma_ : float
        The gamma that is used.

    classes_ : ndarray of shape (n_classes,)
        Class label of each column.

    n_features_in_ : int
        Number of columns of X: `n_classes`, or 1.

    n_errors_ : float
        Number of misclassified samples in `fit`, see :class:`Calibrator`.

    zero_replacement_ : float
        Value substituted for zero probabilities before taking logarithms, see
        :class:`Calibrator`. Defined only if `from_logits=False`.

    preserves_argmax : bool
        True: the predicted class does not change, up to rounding.

    See Also
    --------
    FocalTemperatureScaling : Also fits a temperature.

    Notes
    -----
    For predicted probabilities q, the calibrated probabilities are proportional to
    :math:`q / \left((1 - q)^\gamma - \gamma (1 - q)^{\gamma - 1} q \log q\right)`. The
    map usually increases the confidence; with many classes, it slightly decreases low
    confidences. For overconfident probabilities, "auto" finds gamma = 0.

    A network that overfits or underfits does not minimise the expected loss, so the
    gamma of the training loss need not be the best value.

    References
    ----------
    .. [1] N. Charoenphakdee, J. Vongkulbhisal, N. Chairatanakul and M. Sugiyama, "On
       Focal Loss for Class-Posterior Probability Estimation: A Theoretical
       Perspective", CVPR 2021, theorem 11.

    Examples
    --------
    >>> from sklearn_calib.calibrators import FocalPosterior
    >>> underconfident = [[0.558, 0.442], [0.442, 0.558]]
    >>> calibrator = FocalPosterior(gamma=3).fit(underconfident, [0, 1])
    >>> calibrator.predict_proba(underconfident).round(2)
    array([[0.7, 0.3],
           [0.3, 0.7]])
    """

    preserves_argmax = True
    _fitted = {"gamma_": Number(NON_NEGATIVE)}

    _parameter_constraints = {**Calibrator._parameter_constraints, **GAMMA}

    def __init__(
        self, *, gamma: float | str = "auto", from_logits: bool = False
    ) -> None:
        self.gamma = gamma
        self.from_logits = from_logits

    @property
    def _errors_needed(self) -> tuple[int, float]:
        return (10, 0) if self.gamma == "auto" else (0, 0)

    def _fit(self, data: Blocks) -> None:
        self.gamma_ = float(fit_gamma(data) if self.gamma == "auto" else self.gamma)

    def _calibrate(self, logits: Values) -> Values:
        return focal_posterior(softmax(in_order(logits, "C")), self.gamma_)


class FocalTemperatureScaling(Calibrator):
    r"""Focal temperature scaling: temperature scaling followed by the focal posterior.

    It is temperature scaling with a second parameter, gamma: the map of
    :class:`FocalPosterior` is applied after the softmax [1]_. The order of the classes
    does not change. With gamma = 0, it is temperature scaling.

    Parameters
    ----------
    gamma : float or "auto", default="auto"
        Non-negative exponent, for example the gamma of the focal loss that the network
        was trained with. "auto" fits gamma in [0, 20] together with the temperature.

    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    temperature_ : float
        T, finite and positive.

    gamma_ : float
        The gamma that is used.

    classes_ : ndarray of shape (n_classes,)
        Class label of each column.

    n_features_in_ : int
        Number of columns of X: `n_classes`, or 1.

    n_errors_ : float
        Number of misclassified samples in `fit`, see :class:`Calibrator`.

    zero_replacement_ : float
        Value substituted for zero probabilities before taking logarithms, see
        :class:`Calibrator`. Defined only if `from_logits=False`.

    preserves_argmax : bool
        True: the predicted class does not change, up to rounding.

    See Also
    --------
    TemperatureScaling : The case gamma = 0.
    FocalPosterior : The case T = 1.

    Notes
    -----
    The negative log-likelihood on the data of `fit` is minimised in full precision; the
    authors use a grid search. The temperature is proportional to the scale of the
    logits. If the temperature of :class:`TemperatureScaling` is a bound, "auto" uses
    this bound and gamma = 0; with a given gamma, the temperature is chosen such that
    the probabilities are similar to those of the bound.

    References
    ----------
    .. [1] V. Komisarenko and M. Kull, "Improving Calibration by Relating Focal Loss,
       Temperature Scaling, and Properness", ECAI 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import FocalTemperatureScaling
    >>> rng = np.random.default_rng(0)
    >>> logits = 2 * rng.normal(size=(1000, 3))
    >>> y = (logits + rng.gumbel(size=(1000, 3))).argmax(axis=1)
    >>> overconfident = 3 * logits
    >>> calibrator = FocalTemperatureScaling(gamma=1, from_logits=True)
    >>> calibrator.fit(overconfident, y).predict_proba(overconfident[:2]).round(1)
    array([[0.2, 0.1, 0.6],
           [0.3, 0.1, 0.6]])
    """

    _errors_needed = 10, 0
    preserves_argmax = True
    _fitted = {"temperature_": Number(POSITIVE), "gamma_": Number(NON_NEGATIVE)}

    _parameter_constraints = {**Calibrator._parameter_constraints, **GAMMA}

    def __init__(
        self, *, gamma: float | str = "auto", from_logits: bool = False
    ) -> None:
        self.gamma = gamma
        self.from_logits = from_logits

    def _fit(self, data: Blocks) -> None:
        gamma = None if isinstance(self.gamma, str) else self.gamma
        self.temperature_, self.gamma_ = fit_focal_temperature(data, gamma=gamma)

    def _calibrate(self, logits: Values) -> Values:
        logits = in_order(logits, "C") / self.temperature_
        return focal_posterior(softmax(logits), self.gamma_)


def fit_gamma(data: Blocks) -> float:
    """Return the gamma that minimises the NLL of `focal_posterior(softmax(logits))`.

    It is in [0, 20]. If there are several local minima, it is the first one.

    Parameters
    ----------
    data : Blocks
        Blocks of finite logits, which are read once for each evaluation.

    Returns
    -------
    gamma : float

    Warns
    -----
    ConvergenceWarning
        If gamma is at the upper bound, 20.
    """
    return _find_gamma(lambda gamma: _moments(data, 0.0, gamma)[1][1])


def fit_focal_temperature(
    data: Blocks, *, gamma: float | None = None
) -> tuple[float, float]:
    """Return the T and gamma that minimise the NLL of the scaled focal posterior.

    The predicted probabilities are `focal_posterior(softmax(logits / T), gamma)`.

    Parameters
    ----------
    data : Blocks
        As in :func:`fit_gamma`.

    gamma : float, default=None
        If given, only T is fitted.

    Returns
    -------
    temperature, gamma : float

    Warns
    -----
    ConvergenceWarning
        If gamma is at the upper bound, 20, or if the T for gamma = 0 is a bound.

    Notes
    -----
    The search is over the profile likelihood of gamma: the best T is computed for each
    gamma. A joint search is ill-conditioned, as T and gamma have similar effects,
    especially for two classes.

    If the T for gamma = 0 is a bound, the likelihood has no maximum in T. The
    probabilities with this T then replace the true classes as targets.
    """
    start = fit_temperature(data)
    _, slope, curvature = _moments(data, math.log(start), 0.0)
    is_optimum = abs(slope[0]) <= 1e-3 * curvature[0, 0]
    if not is_optimum:
        data = data.map(
            lambda block: block._replace(codes=softmax(block.logits / start))
        )
    log_temperature, last_gamma, ratio = math.log(start), 0.0, 0.0

    def profile(gamma: float, tolerance: float = 1e-7) -> float:
        """Return the derivative of the profile NLL with respect to gamma."""
        nonlocal log_temperature, last_gamma, ratio
        # The best log(T) changes by about -ratio for each unit of gamma.
        ahead = log_temperature - ratio * (gamma - last_gamma)
        log_temperature, slope, curvature = _best_temperature(
            data, ahead, gamma, tolerance
        )
        last_gamma = gamma
        # First-order correction for the remaining slope in T.
        ratio = curvature[0, 1] / curvature[0, 0] if curvature[0, 0] > 0 else 0.0
        return slope[1] - ratio * slope[0]

    if gamma is None:
        # The replaced targets are the probabilities for gamma = 0.
        gamma = _find_gamma(profile) if is_optimum else 0.0
    profile(gamma, tolerance=1e-12)
    return math.exp(log_temperature), gamma


def _find_gamma(slope: Callable[[float], float]) -> float:
    """Return the first zero of the slope, or 0 if the slope at 0 is not negative."""
    # Near a zero, a second call may have another sign, as it starts from the last
    # result.
    slope = cache(slope)
    if slope(0.0) >= 0:
        return 0.0
    low = 0.0
    for high in GAMMAS:
        if slope(high) >= 0:
            # The cycle in which SciPy keeps its function does not contain the samples.
            return brentq(_call, low, high, args=(slope,), xtol=1e-13, rtol=1e-13)
        low = high
    warn(
        f"The gamma with the largest likelihood is above {GAMMAS[-1]:g}; gamma was set "
        f"to {GAMMAS[-1]:g}. Calibrate with more samples, use held-out data instead of "
        "the training data, and check the order of the columns.",
        ConvergenceWarning,
    )
    return GAMMAS[-1]


def _call(value: float, function: Callable[[float], float]) -> float:
    return function(value)


def _best_temperature(
    data: Blocks, log_temperature: float, gamma: float, tolerance: float
) -> tuple[float, Floats, Floats]:
    """Return the best log(T) for a gamma, and slope and curvature near it.

    Computed by Fisher scoring: Newton's method with the expected second derivative,
    which is non-negative.
    """

    def evaluate(log_temperature: float) -> tuple[Any, Any]:
        value, *derivatives = _moments(data, log_temperature, gamma)
        return value, derivatives

    def solve(_: float, derivatives: Any) -> tuple[float, float]:
        slope, curvature = derivatives[0][0], derivatives[1][0, 0]
        return np.clip(-slope / curvature, -1.0, 1.0) if curvature else 0.0, slope

    for at in newton_steps(evaluate, solve, log_temperature):
        if abs(at.step) <= tolerance:
            break
    return at.point, *at.state


def _moments(data: Blocks, log_temperature: float, gamma: float) -> tuple[Any, ...]:
    """Return the mean NLL, its gradient, and the expected Hessian (Fisher information).

    Targets are column indices, or probabilities of all columns.
    """
    value: Any = 0.0
    slope, curvature = np.zeros(2), np.zeros((2, 2))
    for logits, target, mass in data:
        # C order, so that the rounding of sums does not depend on the layout of the
        # logits.
        block = np.asarray(logits, dtype=np.float64, order="C")
        log_eta, scores = _scores(block, log_temperature, gamma)
        eta = np.exp(log_eta)
        scores -= np.einsum("pij,ij->pi", scores, eta)[:, :, None]
        if target.ndim == 1:
            seen: Any = np.arange(len(block)), target
            value -= mass @ log_eta[seen]
            slope -= scores[:, *seen] @ mass
        else:
            seen = target * mass[:, None]
            value -= np.vdot(seen, log_eta)
            slope -= np.einsum("pij,ij->p", scores, seen)
        weighted = scores * (eta * mass[:, None])
        curvature += weighted.reshape(2, -1) @ scores.reshape(2, -1).T
    return tuple(each / data.weight_sum for each in (value, slope, curvature))


def _scores(
    logits: Floats, log_temperature: float, gamma: float
) -> tuple[Floats, Floats]:
    """Return log probabilities, and their derivatives up to a constant for each row.

    The derivatives are with respect to log(T) and gamma, in this order.
    """
    scaled = logits - row_max(logits)
    scaled *= math.exp(-log_temperature)
    log_q = log_softmax(scaled)
    q = np.exp(log_q)
    _, log_rest, ratio = focal_terms(q)
    log_eta = log_softmax(log_q - gamma * log_rest - np.log1p(gamma * ratio))
    by_log_q = np.einsum("ij,ij->i", q, scaled)[:, None] - scaled
    by_q, rest = q * by_log_q, np.exp(log_rest)
    # Derivative of the ratio by q; near q = 1, by its Taylor series to avoid
    # cancellation.
    is_near_one = rest < 1e-3
    by_ratio = np.where(
        is_near_one,
        0.5 + rest / 3 + rest**2 / 4,
        -(log_q + rest) / np.where(is_near_one, 1.0, rest) ** 2,
    )
    pull = by_q / rest - by_ratio * by_q / (1 + gamma * ratio)
    by_gamma = -log_rest - ratio / (1 + gamma * ratio)
    return log_eta, np.stack([by_log_q + gamma * pull, by_gamma])
