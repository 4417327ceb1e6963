"""Structured scaling: vector and matrix scaling held near temperature scaling."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._core.links import softmax
from sklearn_calib._core.multinomial_maps import DiagonalMap, FullMap
from sklearn_calib._core.optimize import fit_temperature
from sklearn_calib._core.typing import Floats, Ints, Weights
from sklearn_calib.calibrators._multinomial import (
    STRENGTH,
    _MultinomialCalibrator,
    make_ridge,
)


class _StructuredCalibrator(_MultinomialCalibrator):
    """Temperature scaling, then a map that is pulled towards leaving it as it is."""

    _parameter_constraints = {
        **_MultinomialCalibrator._parameter_constraints,
        "diagonal": [STRENGTH],
        "intercept": [STRENGTH],
    }

    def _fit(self, logits: Floats, codes: Ints, sample_weight: Weights) -> None:
        logits = logits.astype(np.float64)
        weight = np.ones(len(logits)) if sample_weight is None else sample_weight
        self._warn_of_absent(codes, weight)
        self.temperature_ = fit_temperature(logits, codes, weight)
        self.mixing_ = float(1 / (weight.sum() + 1))
        features = self._features(logits)
        center = self._kind.identity(logits.shape[1])
        parameters = self._fit_penalised(features, codes, weight, center, center)
        self._set(parameters, logits, features, codes, weight)

    def _features(self, logits: Floats) -> Floats:
        """Return the logarithms of scaled probabilities that keep away from zero."""
        proba = softmax(logits / self.temperature_)
        proba *= 1 - self.mixing_
        proba += self.mixing_ / logits.shape[1]
        return np.log(proba, out=proba)

    def _ridge(
        self,
        identity: Floats,
        n_samples: float,
        lambd: float,
        mu: Any,  # noqa: ARG002 - see the parent
    ) -> Floats:
        n_classes = len(identity)
        unit = lambd * n_classes / n_samples
        off_diagonal = unit * (n_classes - 1) * getattr(self, "off_diagonal", 0.0)
        return make_ridge(
            identity, off_diagonal, unit * self.diagonal, unit * self.intercept
        )


class StructuredVectorScaling(_StructuredCalibrator):
    r"""Scale by a temperature, then give each class a slope near one.

    The calibrated probabilities are softmax((1 + v) * log p + b), where p comes from
    temperature scaling, and a penalty that vanishes as the data grow holds the slopes v
    and the intercepts b near zero [1]_. No class needs samples of its own: where there
    are few it stays temperature scaling.

    Parameters
    ----------
    lambd : float, array-like or "cv", default=1.0
        Strength of the whole penalty. Of a sequence, or of 1e-4, 1e-3, ..., 1e3 for
        "cv", the one with the smallest log loss in a cross-validation inside of `fit`,
        with five stratified folds in the order of the data. The temperature is that of
        all data.

    intercept, diagonal : float, default=1.0
        Relative strength of the pull on the intercepts and on the slopes.

    from_logits : bool, default=False
        Whether X holds logits. Never guessed.

    Attributes
    ----------
    temperature_ : float
        The temperature of the first step.

    mixing_ : float
        The share 1 / (n_samples + 1) of equal probabilities that is mixed into p.

    coef_ : ndarray of shape (n_classes,)
        The slopes 1 + v.

    intercept_ : ndarray of shape (n_classes,)
        The intercepts b.

    lambd_ : float
        The strength that was used.

    log_loss_before_, log_loss_after_ : float
        The log loss on the data of `fit`, as it came and by the fitted map.

    classes_ : ndarray of shape (n_classes,)
        The label of each column.

    n_features_in_ : int
        Number of columns of X: `n_classes`, or 1.

    n_errors_ : float
        Errors among the samples of `fit`, see :class:`Calibrator`.

    zero_replacement_ : float
        What a probability of zero is taken for, see :class:`Calibrator`. Only with
        `from_logits=False`.

    preserves_argmax : bool
        False: the most probable class may change.

    See Also
    --------
    StructuredMatrixScaling : Lets the probabilities of all classes matter for each.
    VectorScaling : The same map without temperature scaling first.

    Notes
    -----
    With n samples (or the sum of their weights) and K classes, p is (n softmax(z / T) +
    1 / K) / (n + 1), and what is minimised is the mean log loss plus

    .. math:: \lambda \frac{K}{n} \Big(\lambda_b \sum_k b_k^2
        + \lambda_d \sum_k v_k^2\Big)

    with :math:`\lambda_b` = `intercept` and :math:`\lambda_d` = `diagonal`. Where the
    temperature is a bound, there is the warning of :class:`TemperatureScaling`.

    References
    ----------
    .. [1] E. Berta, D. Holzmüller, M. I. Jordan and F. Bach, "Structured Matrix Scaling
       for Multi-Class Calibration", arXiv:2511.03685, 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import StructuredVectorScaling
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(5000, 3))
    >>> y = (logits + [1, 0, -1] + rng.gumbel(size=(5000, 3))).argmax(axis=1)
    >>> calibrator = StructuredVectorScaling(from_logits=True).fit(logits, y)
    >>> round(calibrator.log_loss_before_, 2), round(calibrator.log_loss_after_, 2)
    (0.96, 0.74)
    """

    _errors_needed = 20, 0
    _kind = DiagonalMap

    def __init__(
        self,
        *,
        lambd: ArrayLike = 1.0,
        intercept: float = 1.0,
        diagonal: float = 1.0,
        from_logits: bool = False,
    ) -> None:
        self.lambd = lambd
        self.intercept = intercept
        self.diagonal = diagonal
        self.from_logits = from_logits


class StructuredMatrixScaling(_StructuredCalibrator):
    r"""Scale by a temperature, then map by a matrix near the identity.

    The calibrated probabilities are softmax((I + V) log p + b), where p comes from
    temperature scaling, and a penalty that vanishes as the data grow holds V and the
    intercepts b near zero, most of all V off its diagonal [1]_. What the data cannot
    show stays temperature scaling. **Recommended for many classes**: it needs no choice
    of strength, and gains over :class:`TemperatureScaling` where there are enough
    errors among the samples of `fit`. With 20 to 50 errors, `lambd="cv"` is safer.

    Parameters
    ----------
    lambd : float, array-like or "cv", default=1.0
        Strength of the whole penalty. Of a sequence, or of 1e-4, 1e-3, ..., 1e3 for
        "cv", the one with the smallest log loss in a cross-validation inside of `fit`,
        with five stratified folds in the order of the data. The temperature is that of
        all data.

    intercept, diagonal, off_diagonal : float, default=1.0
        Relative strength of the pull on the intercepts, and on V on its diagonal and
        off it.

    from_logits : bool, default=False
        Whether X holds logits. Never guessed.

    Attributes
    ----------
    temperature_ : float
        The temperature of the first step.

    mixing_ : float
        The share 1 / (n_samples + 1) of equal probabilities that is mixed into p.

    coef_ : ndarray of shape (n_classes, n_classes)
        The matrix I + V, a row for each class that comes out.

    intercept_ : ndarray of shape (n_classes,)
        The intercepts b.

    lambd_ : float
        The strength that was used.

    log_loss_before_, log_loss_after_ : float
        The log loss on the data of `fit`, as it came and by the fitted map.

    classes_ : ndarray of shape (n_classes,)
        The label of each column.

    n_features_in_ : int
        Number of columns of X: `n_classes`, or 1.

    n_errors_ : float
        Errors among the samples of `fit`, see :class:`Calibrator`.

    zero_replacement_ : float
        What a probability of zero is taken for, see :class:`Calibrator`. Only with
        `from_logits=False`.

    preserves_argmax : bool
        False: the most probable class may change.

    See Also
    --------
    StructuredVectorScaling : The same with a diagonal matrix.
    MatrixScaling : A matrix without temperature scaling first.

    Notes
    -----
    With n samples (or the sum of their weights) and K classes, p is (n softmax(z / T) +
    1 / K) / (n + 1), and what is minimised is the mean log loss plus

    .. math:: \lambda \Big(\lambda_b \frac{K}{n} \sum_i b_i^2
        + \lambda_d \frac{K}{n} \sum_i V_{ii}^2
        + \lambda_o \frac{K (K - 1)}{n} \sum_{i \ne j} V_{ij}^2\Big)

    with :math:`\lambda_b` = `intercept`, :math:`\lambda_d` = `diagonal` and
    :math:`\lambda_o` = `off_diagonal`. Where the temperature is a bound, there is the
    warning of :class:`TemperatureScaling`.

    References
    ----------
    .. [1] E. Berta, D. Holzmüller, M. I. Jordan and F. Bach, "Structured Matrix Scaling
       for Multi-Class Calibration", arXiv:2511.03685, 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import StructuredMatrixScaling
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(5000, 3))
    >>> y = (logits + [1, 0, -1] + rng.gumbel(size=(5000, 3))).argmax(axis=1)
    >>> calibrator = StructuredMatrixScaling(from_logits=True).fit(logits, y)
    >>> round(calibrator.log_loss_before_, 2), round(calibrator.log_loss_after_, 2)
    (0.96, 0.74)
    """

    _errors_needed = 20, 0.5
    _kind = FullMap
    _parameter_constraints = {
        **_StructuredCalibrator._parameter_constraints,
        "off_diagonal": [STRENGTH],
    }

    def __init__(
        self,
        *,
        lambd: ArrayLike = 1.0,
        intercept: float = 1.0,
        diagonal: float = 1.0,
        off_diagonal: float = 1.0,
        from_logits: bool = False,
    ) -> None:
        self.lambd = lambd
        self.intercept = intercept
        self.diagonal = diagonal
        self.off_diagonal = off_diagonal
        self.from_logits = from_logits
