"""Vector scaling: slope and intercept for the logit of each class."""

from __future__ import annotations

import numpy as np

from sklearn_calib._numerics.sample_blocks import Block, array_blocks
from sklearn_calib._state.schema import Spec
from sklearn_calib._validation.types import Floats
from sklearn_calib.calibrators._base.online_calibrator import (
    LossParts,
    OnlineParameters,
    _OnlineCalibrator,
)
from sklearn_calib.calibrators._linear.linear_calibrator import (
    _PenalisedCalibrator,
    errors_needed,
)
from sklearn_calib.calibrators._linear.multinomial_fit import Kind, Objective
from sklearn_calib.calibrators._linear.multinomial_maps import DiagonalMap


class VectorScaling(_OnlineCalibrator, _PenalisedCalibrator):
    r"""Vector scaling: a slope and an intercept for the logit of each class.

    The calibrated probabilities are softmax(w * x + b), where x are the logits, centred
    in each row, and w and b contain a slope and an intercept for each class [1]_.
    Unlike :class:`TemperatureScaling`, it can correct classes that are predicted too
    often or with too much confidence. It needs about ten misclassified samples for
    each class.

    Parameters
    ----------
    penalty : {"none", "l2", "odir", "empirical_bayes"}, default="none"
        Penalty added to the mean log loss, see Notes. "l2" is the sum of squared slopes
        and intercepts. "odir" is off-diagonal and intercept regularisation (ODIR),
        which penalises only the intercepts here.
        "empirical_bayes" shrinks towards temperature scaling; the strengths are
        estimated from the data, see Notes.

    lambd : float, array-like or "cv", default="cv"
        Strength of the penalty "l2" or "odir". If it is a sequence, `fit` selects the
        value with the lowest log loss in stratified five-fold cross-validation without
        shuffling; "cv" selects from 1e-4, 1e-3, ..., 1e3.

    mu : float, array-like, "cv" or None, default=None
        Strength of the penalty on the intercepts for `penalty="odir"`. None uses the
        value of `lambd`. Values of a sequence are combined with each value of `lambd`.

    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes,)
        The slopes w.

    intercept_ : ndarray of shape (n_classes,)
        The intercepts b.

    lambd_, mu_ : float
        Strengths of the penalty. `lambd_` is defined only with "l2" and "odir", and
        `mu_` only with "odir".

    prior_precision_ : ndarray of shape (2,)
        Precisions of the priors on the slopes and on the intercepts. Defined only with
        "empirical_bayes".

    log_loss_before_, log_loss_after_ : float
        Log loss on the data of `fit`, or of the last call of `partial_fit`, before and
        after calibration.

    classes_ : ndarray of shape (n_classes,)
        Class label of each column.

    n_features_in_ : int
        Number of columns of X: `n_classes`, or 1.

    n_errors_ : float
        Number of misclassified samples in `fit`, or in all calls of `partial_fit`, see
        :class:`Calibrator`.

    zero_replacement_ : float
        Value substituted for zero probabilities before taking logarithms, see
        :class:`Calibrator`. Defined only if `from_logits=False`.

    preserves_argmax : bool
        False: the predicted class may change.

    See Also
    --------
    StructuredVectorScaling : The same map, regularised towards temperature scaling.
    MatrixScaling : Affine map with a full matrix.

    Notes
    -----
    x contains the logits minus their mean in each row, so the result does not depend on
    a constant added to a row, and is the same for logits and log-probabilities.
    ``DirichletCalibrator(diagonal=True)`` uses log-probabilities that are not centred.

    Without a penalty, the log loss is minimised in full precision by Newton's method.
    On the data of `fit`, it does not exceed the log loss before calibration. If the
    classes are separable, the log loss has no minimum. In this case, and if a class has
    fewer samples than parameters, the map is shrunk towards temperature scaling, with a
    `ConvergenceWarning`. Under the independent normal priors of the parameters, a
    calibrated logit differs from temperature scaling with a variance of about two: one
    from its weights and one from its intercept.

    Adding a constant to all intercepts does not change the probabilities. Of these
    equivalent maps, the one closest to temperature scaling is returned.

    With K classes, the penalties are

    - "l2": :math:`\lambda (\sum_k w_k^2 + \sum_k b_k^2)`,
    - "odir": :math:`\frac{\mu}{K} \sum_k b_k^2`.

    With `penalty="empirical_bayes"`, let T be the temperature of
    :class:`TemperatureScaling`, p its probabilities, and m_k the mean of x_k, weighted
    by p_k (1 - p_k). The T w_k and the w_k m_k + b_k have independent normal priors
    around 1 and m_k / T, their values in temperature scaling, with one precision for
    the slopes and one for the intercepts. The precisions maximise the marginal
    likelihood in Laplace's approximation [2]_, and are not below one. Without evidence
    against temperature scaling, the map is close to it.

    :meth:`partial_fit` updates the map with new samples. It needs `penalty="none"`, and
    keeps a matrix of (2 K)^2 numbers.

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On Calibration of Modern
       Neural Networks", ICML 2017, section 4.2.

    .. [2] D. J. C. MacKay, "Bayesian Interpolation", Neural Computation 4, 1992,
       equation 4.8.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import VectorScaling
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(5000, 3))
    >>> y = (logits + [1, 0, -1] + rng.gumbel(size=(5000, 3))).argmax(axis=1)
    >>> calibrator = VectorScaling(from_logits=True).fit(logits, y)
    >>> calibrator.intercept_.round(1)
    array([ 1. ,  0.1, -1. ])
    """

    _errors_needed = errors_needed(10, 1)
    _kind = DiagonalMap()

    @property
    def _fitted(self) -> dict[str, Spec]:
        return {**super()._fitted, **self._past(1, "2 * n_classes")}

    @property
    def _online_parameters(self) -> OnlineParameters:
        fitted = self._parameters().reshape(1, -1)
        identity = self._kind.identity(len(self.classes_)).reshape(1, -1)
        lowest = np.full_like(fitted, -np.inf)
        return OnlineParameters(fitted, identity, lowest, self._losses)

    def _losses(self, block: Block) -> list[LossParts]:
        """Return the log loss of the map."""
        features = block._replace(logits=self._features(block.logits))
        return [multinomial_loss(self._kind, features, len(self.classes_))]

    def _set_parameters(self, parameters: Floats, block: Block) -> None:
        logits = array_blocks(*block)
        features = logits.transform(self._features)
        self._set(parameters.reshape(-1, 2), logits, features)


def multinomial_loss(kind: Kind, block: Block, n_classes: int) -> LossParts:
    """Return the log loss of features as a function of a map's flattened parameters."""
    center = np.zeros_like(kind.identity(n_classes))
    problem = Objective(kind, array_blocks(*block), center, center)

    def loss(parameters: Floats) -> tuple[float, Floats, Floats]:
        shaped = parameters.reshape(center.shape)
        value, gradient = problem.evaluate(shaped)
        return value, gradient.ravel(), problem.hessian(shaped)

    return loss
