"""Class-based temperature scaling, shrunk towards one temperature."""

import numpy as np
from scipy.optimize import minimize_scalar

from sklearn_calib._expressions.columns import lookup
from sklearn_calib._expressions.rows import softmax
from sklearn_calib._expressions.symbol import Values
from sklearn_calib._numerics.sample_blocks import Blocks, as_float64
from sklearn_calib._solvers.temperature_fit import (
    MAX_STEP,
    fit_temperature,
    row_distances,
)
from sklearn_calib._state.schema import POSITIVE, Number, Numbers
from sklearn_calib._validation.declarations import ABOVE_0
from sklearn_calib._validation.types import Floats
from sklearn_calib.calibrators._base.calibrator import Calibrator
from sklearn_calib.calibrators._linear.empirical_bayes import likelihood_ratios

# Variances of the prior among which the one with the largest likelihood is refined.
VARIANCES = np.geomspace(1e-6, 1, 61)
# The search ends when no log(T) changes by more.
TOLERANCE, MAX_PASSES = 1e-6, 100


class ClassTemperatureScaling(Calibrator):
    r"""Class temperature scaling: a temperature for each predicted class.

    The calibrated probabilities are :math:`softmax(z / T_k)`, where k is the class with
    the largest logit. A normal prior shrinks :math:`\log T_k` towards the logarithm of
    the common temperature, so that classes with few samples are hardly affected. The
    order of the classes does not change.

    Parameters
    ----------
    lambd : float, default=None
        Precision of the prior, the inverse of the variance of :math:`\log T_k` between
        classes. By default, it is estimated from the data of `fit`.

    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    temperature_ : float
        The common temperature T.

    temperatures_ : ndarray of shape (n_classes,)
        The temperature of each predicted class.

    lambd_ : float
        Precision of the prior.

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
    TemperatureScaling : One temperature for all classes.
    StructuredVectorScaling : A slope and an intercept for the logit of each class.
    TopLabelCalibrator : Any map of the confidence, also for each predicted class.

    Notes
    -----
    Class-based temperature scaling [1]_ divides the logit of each class by the
    temperature of this class, which may change the predicted class, and searches for
    the temperatures with the lowest calibration error. Here, the temperature of the
    predicted class applies to the whole row. T is that of :class:`TemperatureScaling`,
    and the temperatures minimise

    .. math:: -\sum_i \log p_i(y_i)
        + \frac{\lambda}{2} \sum_k (\log T_k - \log T)^2.

    By default, :math:`\lambda`, from 1 to 1e6, maximises the marginal likelihood, in
    which the log loss of each class is approximated by a parabola [2]_.

    If the optimal T is 0 or infinite, T is a bound. In the objective, the logits
    of the true classes are then changed such that T is optimal, so that the
    temperatures of the classes do not go beyond the bound together.

    References
    ----------
    .. [1] L. Frenkel and J. Goldberger, "Network Calibration by Class-based Temperature
       Scaling", EUSIPCO 2021.

    .. [2] N. E. Breslow and D. G. Clayton, "Approximate Inference in Generalized Linear
       Mixed Models", Journal of the American Statistical Association 88, 1993.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import ClassTemperatureScaling
    >>> rng = np.random.default_rng(0)
    >>> logits = 2 * rng.normal(size=(5000, 3))
    >>> y = (logits + rng.gumbel(size=(5000, 3))).argmax(axis=1)
    >>> predicted = logits.argmax(axis=1)
    >>> wrong = logits * np.array([1, 2, 4])[predicted][:, None]
    >>> calibrator = ClassTemperatureScaling(from_logits=True).fit(wrong, y)
    >>> calibrator.temperatures_.round(1)
    array([1. , 2.1, 4.1])
    """

    _errors_needed = 10, 0
    preserves_argmax = True
    _fitted = {
        "temperature_": Number(POSITIVE),
        "temperatures_": Numbers("n_classes", range=POSITIVE),
        "lambd_": Number(POSITIVE),
    }
    _parameter_constraints = {
        **Calibrator._parameter_constraints,
        "lambd": [*ABOVE_0, None],
    }

    def __init__(
        self, *, lambd: float | None = None, from_logits: bool = False
    ) -> None:
        self.lambd = lambd
        self.from_logits = from_logits

    def _fit(self, data: Blocks) -> None:
        self.temperature_ = fit_temperature(data)
        data = data.transform(as_float64)
        shift = np.zeros(len(data.sizes))
        self.temperatures_ = self.temperature_ * np.exp(shift)
        true_distances = _true_distances(data, self.temperatures_)
        for _ in range(MAX_PASSES):
            expected, variance = _expected_distances(data, self.temperatures_)
            # Derivatives of the log loss with respect to log(T). The second is not less
            # than the Fisher information, so that steps are short rather than wrong.
            slope = expected - true_distances / self.temperatures_
            curvature = variance + np.maximum(-slope, 0)
            # The parabola has its minimum at pull / curvature.
            pull = curvature * shift - slope
            self.lambd_ = float(self.lambd or _estimate_precision(curvature, pull))
            step = pull / (curvature + self.lambd_) - shift
            if np.abs(step).max() < TOLERANCE:
                break
            shift += np.clip(step, -MAX_STEP, MAX_STEP)
            self.temperatures_ = self.temperature_ * np.exp(shift)

    def _calibrate(self, logits: Values) -> Values:
        top = logits.argmax(axis=1, keepdims=True)
        return softmax(logits / lookup(self.temperatures_.astype(logits.dtype), top))


def _true_distances(data: Blocks, temperatures: Floats) -> Floats:
    """Return the sum of the distances of the true classes, for each predicted class.

    A distance is that of a logit to the largest logit of the row. If the common
    temperature is a bound, the distances are changed such that it is optimal.
    Otherwise, the temperatures of all classes would go beyond the bound.
    """
    distances = np.zeros(len(temperatures))
    for logits, codes, weight in data:
        rows, top = np.arange(len(codes)), logits.argmax(axis=1)
        distance = logits[rows, top] - logits[rows, codes]
        distances += np.bincount(top, weight * distance, len(distances))
    expected = _expected_distances(data, temperatures)[0] * temperatures
    return (
        distances * (expected.sum() / distances.sum()) if distances.any() else expected
    )


def _expected_distances(data: Blocks, temperatures: Floats) -> tuple[Floats, Floats]:
    """Return the sums of expected distances and of variances, in units of T."""
    sums = np.zeros((2, len(temperatures)))
    for logits, _, weight in data:
        top = logits.argmax(axis=1)
        terms = row_distances(logits, 1 / temperatures[top])
        sums += [np.bincount(top, weight * term, sums.shape[1]) for term in terms]
    return sums[0], sums[1]


def _estimate_precision(curvature: Floats, pull: Floats) -> float:
    """Return the precision of the prior with the largest marginal likelihood."""

    def cost(log_variance: Floats) -> Floats:
        return -likelihood_ratios(np.exp(log_variance), curvature, pull)

    levels = np.log(VARIANCES)
    best = int(cost(levels).argmin())
    ends = levels[max(best - 1, 0)], levels[min(best + 1, len(levels) - 1)]
    found = minimize_scalar(cost, bounds=ends, method="bounded")
    return float(np.exp(-found.x))
