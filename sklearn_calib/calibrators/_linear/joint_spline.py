"""Joint log-odds spline calibration of all classes."""

from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Self

import numpy as np

from sklearn_calib._expressions.columns import cubic
from sklearn_calib._expressions.rows import log_softmax
from sklearn_calib._expressions.symbol import Values
from sklearn_calib._numerics.sample_blocks import Blocks, as_float64
from sklearn_calib._solvers.spline_logistic import (
    Curve,
    fit_joint_curve,
    fit_joint_curves_without,
)
from sklearn_calib._state.schema import NON_NEGATIVE, Numbers, Spec
from sklearn_calib._validation.declarations import Interval
from sklearn_calib._validation.types import Floats
from sklearn_calib.calibrators._linear.linear_calibrator import (
    EMPIRICAL_BAYES,
    _PenalisedCalibrator,
)
from sklearn_calib.calibrators._linear.multinomial_maps import DiagonalMap
from sklearn_calib.calibrators._one_vs_rest.log_odds_spline import CURVE


class JointLogOddsSplineCalibration(_PenalisedCalibrator):
    r"""Joint log-odds spline calibration: one smooth curve for all classes.

    The calibrated probabilities are the softmax of :math:`a_k \log q_k + b_k`, where q
    is the softmax of :math:`f(\log p_k)`. The curve f is a non-decreasing natural cubic
    spline that all classes share, and each class has a slope :math:`a_k` and an
    intercept :math:`b_k`. Unlike
    :class:`LogOddsSplineCalibration`, which fits a curve for each class one-vs-rest, it
    maximises the likelihood of the returned probabilities, and its curve is estimated
    from all classes together.

    Parameters
    ----------
    n_knots : int, default=12
        Largest number of knots, from 2 to 100. The knots are quantiles of the
        log-probabilities, weighted with the probabilities. The smoothness is determined
        by the prior, so that more knots change little.

    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    curve_ : tuple of ndarray
        The curve f: knots, and its values and slopes at the knots, each of shape
        (n_points,). Between two knots, it is the cubic polynomial with these values and
        slopes; beyond the knots, it is linear.

    curve_precision_ : ndarray of shape (2,)
        Strengths of the priors of the curve, see :class:`LogOddsSplineCalibration`.

    coef_ : ndarray of shape (n_classes,)
        The slopes a.

    intercept_ : ndarray of shape (n_classes,)
        The intercepts b.

    prior_precision_ : ndarray of shape (2,)
        Precisions of the priors of the slopes and of the intercepts.

    log_loss_before_, log_loss_after_ : float
        Log loss on the data of `fit`, before and after calibration.

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
        False: slopes and intercepts may change the predicted class.

    See Also
    --------
    LogOddsSplineCalibration : A curve for each class, fitted one-vs-rest.
    JointBetaCalibration : Another joint map, without a shared curve.

    Notes
    -----
    The curve is :math:`f(x) = x + l(x) + s(x)` with a linear function l and a spline s,
    whose priors are those of :class:`LogOddsSplineCalibration`. There, x are the
    :math:`\log p_{ik}` of all samples and classes, with the weights :math:`p_{ik}`, and
    the constant of l is omitted, because it changes no probability. The curve is fitted
    first, with slopes one and intercepts zero. These are then fitted to
    :math:`x_k = \log q_k`, with the priors of :class:`VectorScaling` for
    `penalty="empirical_bayes"` and T = 1. The strengths of all four priors maximise the
    marginal likelihood (empirical Bayes) [1]_. Temperature scaling is the special case
    of a linear f.

    If the log loss of the predictions exceeds that of equal probabilities,
    :math:`\log p` is first divided by the temperature of :class:`TemperatureScaling`.
    `curve_` includes this temperature.

    References
    ----------
    .. [1] D. J. C. MacKay, "Bayesian Interpolation", Neural Computation 4, 1992.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import JointLogOddsSplineCalibration
    >>> rng = np.random.default_rng(0)
    >>> logits = 2 * rng.normal(size=(2000, 5))
    >>> true = np.maximum(logits, -1)
    >>> y = (true + rng.gumbel(size=(2000, 5))).argmax(axis=1)
    >>> calibrator = JointLogOddsSplineCalibration(from_logits=True).fit(3 * logits, y)
    >>> round(calibrator.log_loss_before_, 1), round(calibrator.log_loss_after_, 1)
    (1.8, 1.0)
    """

    _errors_needed = 10, 0
    _has_temperature = False
    _kind = DiagonalMap()
    curve_: Curve
    curve_precision_: Floats
    penalty, lambd, mu = EMPIRICAL_BAYES, "cv", None
    _parameter_constraints = {
        **_PenalisedCalibrator._parameter_constraints,
        "n_knots": [Interval(Integral, 2, 100, closed="both")],
    }

    def __init__(self, *, n_knots: int = 12, from_logits: bool = False) -> None:
        self.n_knots = n_knots
        self.from_logits = from_logits

    @property
    def _fitted(self) -> dict[str, Spec]:
        precision = Numbers(2, range=NON_NEGATIVE)
        curve = {"curve_": CURVE, "curve_precision_": precision}
        return {**super()._fitted, **curve}

    def _fit_from(self, logits: Blocks, fitted: Self | None) -> None:
        log_proba = logits.transform(log_softmax).kept()
        known = () if fitted is None else (fitted.curve_precision_, fitted.curve_)
        self.curve_, self.curve_precision_ = fit_joint_curve(
            log_proba, self.n_knots, *known
        )
        features = logits.transform(self._features).kept()
        self._set(self._fit_empirical_bayes(features, fitted), logits, features)

    def _steps_without(self, parts: Sequence[Blocks]) -> Iterator[Self]:
        curves = fit_joint_curves_without(
            [part.transform(as_float64).transform(log_softmax) for part in parts],
            self.n_knots,
            self.curve_precision_,
            self.curve_,
        )
        for new, curve in zip(super()._steps_without(parts), curves, strict=True):
            new.curve_ = curve
            yield new

    def _features(self, logits: Values) -> Values:
        log_proba = log_softmax(logits.astype(np.float64, copy=False))
        scores = cubic(log_proba, self.curve_)
        return log_softmax(scores).astype(logits.dtype, copy=False)
