"""Structured scaling: vector and matrix scaling shrunk towards temperature scaling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

from numpy.typing import ArrayLike

from sklearn_calib._expressions.rows import softmax
from sklearn_calib._expressions.symbol import Values, log
from sklearn_calib._numerics.sample_blocks import Blocks, joined
from sklearn_calib._solvers.temperature_fit import fit_temperature
from sklearn_calib._state.schema import POSITIVE, UP_TO_ONE, Number, Spec
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import StrOptions
from sklearn_calib._validation.types import Floats
from sklearn_calib.calibrators._linear.linear_calibrator import (
    EMPIRICAL_BAYES,
    STRENGTH,
    _MultinomialCalibrator,
    errors_needed,
    make_ridge,
)
from sklearn_calib.calibrators._linear.multinomial_fit import fit_without
from sklearn_calib.calibrators._linear.multinomial_maps import DiagonalMap, FullMap


class _StructuredCalibrator(_MultinomialCalibrator):
    """Base class: temperature scaling, then a map shrunk towards the identity."""

    _parameter_constraints = {
        **_MultinomialCalibrator._parameter_constraints,
        "lambd": [STRENGTH, StrOptions({"cv", EMPIRICAL_BAYES}), "array-like"],
        "diagonal": [STRENGTH],
        "intercept": [STRENGTH],
    }

    @property
    def _fitted(self) -> dict[str, Spec]:
        start = {"temperature_": Number(POSITIVE), "mixing_": Number(UP_TO_ONE)}
        return {**start, **super()._fitted}

    def _fit_from(self, logits: Blocks, fitted: Self | None) -> None:
        self._check_strengths()
        self.temperature_ = fit_temperature(logits)
        # A mixture costs about as much as a parameter, unless its weight is smaller.
        power = 2 if self._uses_empirical_bayes else 1
        self.mixing_ = float(1 / (logits.weight_sum + 1) ** power)
        features = logits.transform(self._features).kept()
        if self._uses_empirical_bayes:
            parameters = self._fit_empirical_bayes(features, fitted)
        else:
            center = self._kind.identity(len(logits.sizes))
            parameters = self._fit_penalised(features, center, center, 1.0, fitted)
        self._set(parameters, logits, features)

    def _fit_without(self, parts: Sequence[Blocks], scale: float) -> Iterator[Floats]:
        if self._uses_empirical_bayes:
            return super()._fit_without(parts, scale)
        center = self._kind.identity(len(self.classes_))
        n_samples = joined(parts).weight_sum
        ridge = n_samples * self._ridge(center, n_samples, self.lambd_, None)
        return fit_without(
            self._kind,
            parts,
            ridge=ridge,
            center=center,
            fitted=self._parameters(),
            scale_is_free=self._has_temperature,
        )

    def _check_strengths(self) -> None:
        for name in ("intercept", "diagonal", "off_diagonal"):
            value = getattr(self, name, 1.0)
            if self._uses_empirical_bayes and value != 1:
                raise ValueError(
                    f'{name} must be 1.0 with lambd="empirical_bayes", which estimates '
                    f"this strength, got {shown(value)}. Pass lambd=1.0."
                )

    @property
    def _uses_empirical_bayes(self) -> bool:
        return isinstance(self.lambd, str) and self.lambd == EMPIRICAL_BAYES

    def _features(self, logits: Values) -> Values:
        """Return the logarithms of p: scaled probabilities mixed with uniform ones."""
        proba = softmax(logits / self.temperature_)
        proba *= 1 - self.mixing_
        proba += self.mixing_ / logits.shape[1]
        return log(proba)

    def _ridge(
        self,
        identity: Floats,
        n_samples: float,
        lambd: float,
        mu: Any,  # noqa: ARG002 - see the parent
    ) -> Floats:
        n_classes = len(identity)
        strength = lambd * n_classes / n_samples
        off_diagonal = strength * (n_classes - 1) * getattr(self, "off_diagonal", 0.0)
        return make_ridge(
            identity, off_diagonal, strength * self.diagonal, strength * self.intercept
        )


class StructuredVectorScaling(_StructuredCalibrator):
    r"""Structured vector scaling: vector scaling shrunk towards temperature scaling.

    The calibrated probabilities are softmax((1 + v) * log p + b), where p are the
    probabilities after temperature scaling. A penalty, which decreases with the number
    of samples, shrinks the slopes v and the intercepts b towards zero [1]_. For classes
    with few samples, the map is close to temperature scaling.

    Parameters
    ----------
    lambd : float, array-like, "cv" or "empirical_bayes", default="empirical_bayes"
        Strength of the whole penalty. "empirical_bayes" estimates each strength from
        the data, see Notes. The authors use 1.0 [1]_. If it is a sequence, `fit`
        selects the value with the lowest log loss in stratified five-fold
        cross-validation without shuffling; "cv" selects from 1e-4, 1e-3, ..., 1e3. The
        temperature is fitted once, to all samples.

    intercept, diagonal : float, default=1.0
        Relative strengths of the penalties on the intercepts and on the slopes. They
        need a `lambd` other than "empirical_bayes", which estimates them.

    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    temperature_ : float
        Temperature of the first step.

    mixing_ : float
        Weight of uniform probabilities in p: 1 / (n_samples + 1)² with
        `lambd="empirical_bayes"`, and 1 / (n_samples + 1) with another `lambd`.

    coef_ : ndarray of shape (n_classes,)
        The slopes 1 + v.

    intercept_ : ndarray of shape (n_classes,)
        The intercepts b.

    lambd_ : float
        Strength of the penalty. Not defined with "empirical_bayes".

    prior_precision_ : ndarray of shape (2,)
        Precisions of the priors on the slopes v and on the intercepts b. Defined only
        with `lambd="empirical_bayes"`.

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
        False: the predicted class may change.

    See Also
    --------
    StructuredMatrixScaling : The same method with a full matrix.
    VectorScaling : Vector scaling without this penalty.

    Notes
    -----
    With K classes and the weight w = `mixing_`, p is (1 - w) softmax(z / T) + w / K.
    With n samples (or the sum of their weights), w is 1 / (n + 1)² with
    `lambd="empirical_bayes"`, and 1 / (n + 1) with another `lambd`, for which the
    objective is the mean log loss plus

    .. math:: \lambda \frac{K}{n} \Big(\lambda_b \sum_k b_k^2
        + \lambda_d \sum_k v_k^2\Big)

    with :math:`\lambda_b` = `intercept` and :math:`\lambda_d` = `diagonal`. If the
    optimal temperature is 0 or infinite, see :class:`TemperatureScaling`.

    With `lambd="empirical_bayes"`, let m_k be the mean of log p_k, weighted by p_k (1 -
    p_k). The v_k and the v_k m_k + b_k have independent normal priors around zero, with
    one precision for the slopes and one for the intercepts. The precisions maximise the
    marginal likelihood in Laplace's approximation [2]_, and are not below one. Without
    evidence against temperature scaling, the map is close to it.

    References
    ----------
    .. [1] E. Berta, D. Holzmüller, M. I. Jordan and F. Bach, "Structured Matrix Scaling
       for Multi-Class Calibration", arXiv:2511.03685, 2025.

    .. [2] D. J. C. MacKay, "Bayesian Interpolation", Neural Computation 4, 1992,
       equation 4.8.

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

    _errors_needed = errors_needed(20, 0)
    _kind = DiagonalMap()

    def __init__(
        self,
        *,
        lambd: ArrayLike = EMPIRICAL_BAYES,
        intercept: float = 1.0,
        diagonal: float = 1.0,
        from_logits: bool = False,
    ) -> None:
        self.lambd = lambd
        self.intercept = intercept
        self.diagonal = diagonal
        self.from_logits = from_logits


class StructuredMatrixScaling(_StructuredCalibrator):
    r"""Structured matrix scaling: matrix scaling shrunk towards temperature scaling.

    The calibrated probabilities are softmax((I + V) log p + b), where p are the
    probabilities after temperature scaling. A penalty, which decreases with the number
    of samples, shrinks V and the intercepts b towards zero, and most strongly the
    off-diagonal elements of V [1]_. `fit` raises an error for more than
    5000 classes; use :class:`StructuredVectorScaling` for them.

    **Recommended for ten to a hundred classes**: no strength has to be chosen, and with
    few misclassified samples the map is close to :class:`TemperatureScaling`. With
    thousands of them, compare `lambd=1.0`, which takes less time.

    Parameters
    ----------
    lambd : float, array-like, "cv" or "empirical_bayes", default="empirical_bayes"
        Strength of the whole penalty. "empirical_bayes" estimates each strength from
        the data, see Notes. The authors use 1.0 [1]_. If it is a sequence, `fit`
        selects the value with the lowest log loss in stratified five-fold
        cross-validation without shuffling; "cv" selects from 1e-4, 1e-3, ..., 1e3. The
        temperature is fitted once, to all samples.

    intercept, diagonal, off_diagonal : float, default=1.0
        Relative strengths of the penalties on the intercepts, on the diagonal of V, and
        on its off-diagonal elements. They need a `lambd` other than "empirical_bayes",
        which estimates them.

    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    temperature_ : float
        Temperature of the first step.

    mixing_ : float
        Weight of uniform probabilities in p: 1 / (n_samples + 1)² with
        `lambd="empirical_bayes"`, and 1 / (n_samples + 1) with another `lambd`.

    coef_ : ndarray of shape (n_classes, n_classes)
        The matrix I + V, with one row for each output class.

    intercept_ : ndarray of shape (n_classes,)
        The intercepts b.

    lambd_ : float
        Strength of the penalty. Not defined with "empirical_bayes".

    prior_precision_ : ndarray of shape (3,)
        Precisions of the priors on the off-diagonal elements of V, its diagonal and the
        intercepts. Defined only with `lambd="empirical_bayes"`.

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
        False: the predicted class may change.

    See Also
    --------
    StructuredVectorScaling : The same method with a diagonal matrix.
    MatrixScaling : Matrix scaling without this penalty.

    Notes
    -----
    With K classes and the weight w = `mixing_`, p is (1 - w) softmax(z / T) + w / K.
    With n samples (or the sum of their weights), w is 1 / (n + 1)² with
    `lambd="empirical_bayes"`, and 1 / (n + 1) with another `lambd`, for which the
    objective is the mean log loss plus

    .. math:: \lambda \Big(\lambda_b \frac{K}{n} \sum_i b_i^2
        + \lambda_d \frac{K}{n} \sum_i V_{ii}^2
        + \lambda_o \frac{K (K - 1)}{n} \sum_{i \ne j} V_{ij}^2\Big)

    with :math:`\lambda_b` = `intercept`, :math:`\lambda_d` = `diagonal` and
    :math:`\lambda_o` = `off_diagonal`. If the optimal temperature is 0 or infinite, see
    :class:`TemperatureScaling`.

    With `lambd="empirical_bayes"`, let m_k be the mean of log p_k, weighted by p_k (1 -
    p_k). The elements of V and of V m + b have independent normal priors around zero.
    The off-diagonal elements of V, its diagonal and the intercepts have one precision
    each. The precisions maximise the marginal likelihood in Laplace's approximation
    [2]_, and are not below one. Without evidence against temperature scaling, the map
    is close to it. For more than 24 classes, the approximation treats the off-diagonal
    elements as independent given the data.

    References
    ----------
    .. [1] E. Berta, D. Holzmüller, M. I. Jordan and F. Bach, "Structured Matrix Scaling
       for Multi-Class Calibration", arXiv:2511.03685, 2025.

    .. [2] D. J. C. MacKay, "Bayesian Interpolation", Neural Computation 4, 1992,
       equation 4.8.

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

    _errors_needed = errors_needed(20, 0.5)
    _kind = FullMap()
    _parameter_constraints = {
        **_StructuredCalibrator._parameter_constraints,
        "off_diagonal": [STRENGTH],
    }

    def __init__(
        self,
        *,
        lambd: ArrayLike = EMPIRICAL_BAYES,
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
