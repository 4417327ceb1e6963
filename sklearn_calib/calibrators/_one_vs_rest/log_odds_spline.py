"""Log-odds spline calibration."""

from functools import partial
from itertools import repeat
from numbers import Integral
from typing import Any, Self

import numpy as np

from sklearn_calib._expressions.columns import cubic
from sklearn_calib._expressions.symbol import Values
from sklearn_calib._numerics.sample_blocks import Blocks
from sklearn_calib._solvers.spline_logistic import fit_curve
from sklearn_calib._state.schema import NON_NEGATIVE, Numbers, Spec, Tuple
from sklearn_calib._validation.declarations import Interval
from sklearn_calib._validation.types import Array, Floats
from sklearn_calib.calibrators._one_vs_rest.one_vs_rest import _OneVsRestCalibrator

# Knots, values and slopes of a curve.
CURVE = Tuple(
    Numbers("n + 2", increasing="strictly"), Numbers("n + 2"), Numbers("n + 2")
)


class LogOddsSplineCalibration(_OneVsRestCalibrator):
    r"""Log-odds spline calibration: a smooth curve for the log-odds of each class.

    The calibrated log-odds are a natural cubic spline of the predicted log-odds,
    fitted by penalised logistic regression [1]_. Unlike :class:`PlattScaling` and
    :class:`BetaCalibration`, the curve can have any shape; unlike
    :class:`IsotonicCalibration`, it is smooth, and needs fewer samples. Beyond the data
    of `fit`, the curve is linear, so probabilities never reach zero.

    Parameters
    ----------
    monotone : bool, default=True
        Whether the curves must not decrease.

    n_knots : int, default=20
        Largest number of knots, from 2 to 100. The knots are quantiles of the log-odds.
        The smoothness is determined by the prior, so that more knots change little.

    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    maps_ : list of tuple of ndarray
        The curve of each class (for two classes, only of the second): knots, and the
        values and slopes of the curve at the knots, each of shape (n_points,). Between
        two knots, it is the cubic polynomial with these values and slopes.

    prior_precision_ : ndarray of shape (n_maps, 2)
        Strengths of the priors of each curve, kappa and lambda in Notes.

    class_prior_ : ndarray of shape (n_classes,)
        Class frequencies, with one pseudo-count added to each class.

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
        False: each class has its own map, so the predicted class may change.

    See Also
    --------
    JointLogOddsSplineCalibration : One curve for all classes.
    SplineCalibration : Spline fitted to cumulative frequencies.
    PlattScaling : Linear function of the log-odds.

    Notes
    -----
    Let x be the predicted log-odds of a class, p its probability, and z the
    standardised x, with mean 0 and variance 1 over the n samples. The curve is
    :math:`x + l + s` with a linear function l and a natural cubic spline s whose values
    at the knots are orthogonal to those of linear functions. The priors are

    .. math:: l = b_0 + b_1 z, \quad b \sim N\big(0, (\kappa I)^{-1}\big), \qquad
        p(s) \propto \exp\Big(-\frac{\lambda}{2} \int s''(z)^2 \, dz\Big)

    with the mean Fisher information I of a sample at the predicted probabilities,

    .. math:: I = \frac{1}{n} \Big(\sum_i p_i (1 - p_i)
        \begin{pmatrix} 1 & z_i \\ z_i & z_i^2 \end{pmatrix}
        + \frac{1}{4} \begin{pmatrix} 1 & 0 \\ 0 & 1 \end{pmatrix}\Big),

    to which one sample of probability 1/2 is added. The posterior density is maximised
    by Newton's method. The strengths maximise the marginal likelihood in Laplace's
    approximation (empirical Bayes), by MacKay's fixed point [2]_: each is the effective
    number of parameters, divided by :math:`b^T I b` for :math:`\kappa`, which is at
    least 1, and by :math:`\int s''(z)^2 \, dz` for :math:`\lambda`. Both start at 1.
    After each Newton step, they are updated up to three times for the parabola that
    approximates the log loss. The search ends when both effective numbers change by
    less than 0.01 in the first update, usually after about ten Newton steps. With
    `monotone=True`, the curve without the constraint determines the strengths, and the
    posterior is then maximised under it. [1]_ chooses the strength by cross-validation,
    has no prior for the linear part, and adds samples on the diagonal instead.

    If the log loss of the predictions exceeds that of equal probabilities, x is first
    divided by the temperature of :class:`TemperatureScaling`. `maps_` include this
    temperature.

    With more than 8192 distinct log-odds, neighbours are averaged in 8192 groups of
    equal weight; the strengths are estimated from at most 1024 groups. For more than
    two classes, the rows are normalised.

    References
    ----------
    .. [1] B. Lucena, "Spline-Based Probability Calibration", arXiv:1809.07751, 2018.

    .. [2] D. J. C. MacKay, "Bayesian Interpolation", Neural Computation 4, 1992.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.special import expit
    >>> from sklearn.metrics import log_loss
    >>> from sklearn_calib.calibrators import LogOddsSplineCalibration
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(scale=2, size=5000)
    >>> y = rng.random(5000) < expit(logits + np.sin(2 * logits))
    >>> calibrator = LogOddsSplineCalibration(from_logits=True).fit(logits, y)
    >>> round(log_loss(y, expit(logits)), 2)
    0.47
    >>> round(log_loss(y, calibrator.predict_proba(logits)), 2)
    0.44
    """

    _errors_needed = 10, 0.4
    _returns_log_odds = True
    _map = CURVE
    prior_precision_: Floats
    _parameter_constraints = {
        **_OneVsRestCalibrator._parameter_constraints,
        "monotone": ["boolean"],
        "n_knots": [Interval(Integral, 2, 100, closed="both")],
    }

    def __init__(
        self, *, monotone: bool = True, n_knots: int = 20, from_logits: bool = False
    ) -> None:
        self.monotone = monotone
        self.n_knots = n_knots
        self.from_logits = from_logits

    @property
    def _fitted(self) -> dict[str, Spec]:
        precision = Numbers("n_maps", 2, range=NON_NEGATIVE)
        return {**super()._fitted, "prior_precision_": precision}

    def _fit(self, data: Blocks, fitted: Self | None = None) -> None:
        known = repeat(None) if fitted is None else fitted.prior_precision_
        self._fit_maps(data, (partial(self._fit_map, precision=p) for p in known))
        self.maps_, precisions = map(list, zip(*self.maps_, strict=True))
        self.prior_precision_ = np.array(precisions)

    def _fit_map(
        self,
        log_odds: Floats,
        target: Array,
        sample_weight: Floats,
        precision: Floats | None = None,
    ) -> Any:
        return fit_curve(
            log_odds,
            target,
            sample_weight,
            n_knots=self.n_knots,
            is_monotone=self.monotone,
            precision=precision,
        )

    def _apply_maps(self, log_odds: Values) -> Values:
        return cubic(log_odds, self.maps_)
