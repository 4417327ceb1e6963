"""Dirichlet calibration: an affine map of log-probabilities."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from sklearn_calib._expressions.rows import log_softmax
from sklearn_calib._expressions.symbol import Values
from sklearn_calib.calibrators._linear.linear_calibrator import (
    _PenalisedCalibrator,
    errors_needed,
)
from sklearn_calib.calibrators._linear.multinomial_maps import DiagonalMap, FullMap


class DirichletCalibrator(_PenalisedCalibrator):
    r"""Dirichlet calibration: affine map of the log-probabilities.

    The calibrated probabilities are softmax(W log p + b), with a full matrix W. This
    form is exact if the predicted probabilities of each class follow a Dirichlet
    distribution [1]_. With K classes, there are K (K + 1) parameters. For many classes,
    use :class:`StructuredMatrixScaling`. `fit` raises an error for more than
    5000 classes, unless `diagonal=True`.

    Parameters
    ----------
    diagonal : bool, default=False
        Whether W is diagonal, which gives K slopes and K intercepts.

    penalty : {"none", "l2", "odir", "empirical_bayes"}, default="none"
        Penalty added to the mean log loss, see Notes. "l2" is the sum of squared
        weights and intercepts. "odir" is off-diagonal and intercept regularisation
        (ODIR), which does not penalise the diagonal of W.
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
    coef_ : ndarray of shape (n_classes, n_classes) or (n_classes,)
        The weights W, with one row for each output class, or their diagonal.

    intercept_ : ndarray of shape (n_classes,)
        The intercepts b.

    lambd_, mu_ : float
        Strengths of the penalty. `lambd_` is defined only with "l2" and "odir", and
        `mu_` only with "odir".

    prior_precision_ : ndarray of shape (n_groups,)
        Precisions of the priors on the off-diagonal elements of W, its diagonal and the
        intercepts, or of its diagonal and the intercepts. Defined only with
        "empirical_bayes".

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
    MatrixScaling : Affine map of centred logits.
    StructuredMatrixScaling : Regularised towards temperature scaling, for many classes.

    Notes
    -----
    Logits are converted to log-probabilities by log-softmax, which is precise even if
    the probabilities are rounded to 0 or 1.

    Without a penalty, the log loss is minimised in full precision by Newton's method.
    On the data of `fit`, it does not exceed the log loss before calibration. If the
    classes are separable, the log loss has no minimum. In this case, and if a class has
    fewer samples than parameters, the map is shrunk towards temperature scaling, with a
    `ConvergenceWarning`. Under the independent normal priors of the parameters, a
    calibrated logit differs from temperature scaling with a variance of about two: one
    from its weights and one from its intercept.

    Adding a constant to all elements of a column of W does not change the
    probabilities. Of these equivalent maps, the one closest to temperature scaling is
    returned.

    With K classes, the penalties are ([1]_, section 3)

    - "l2": :math:`\lambda (\sum_{ij} W_{ij}^2 + \sum_i b_i^2)`,
    - "odir": :math:`\frac{\lambda}{K(K-1)} \sum_{i \ne j} W_{ij}^2 + \frac{\mu}{K}
      \sum_i b_i^2`.

    The sums are over all K classes. The authors' package first subtracts the row of the
    last class from all rows of W and b (`ref_row=True`), so its result depends on the
    order of the classes; with `ref_row=False`, it has these penalties.

    The "l2" penalty shrinks W towards zero instead of the identity, so it may increase
    the log loss on the data of `fit`; compare `log_loss_before_` and `log_loss_after_`.

    With `penalty="empirical_bayes"`, let T be the temperature of
    :class:`TemperatureScaling`, q its probabilities, and m_k the mean of log p_k,
    weighted by q_k (1 - q_k). The elements of T W and of W m + b have independent
    normal priors around those of I and m / T, their values in temperature scaling. The
    off-diagonal elements, the diagonal and the intercepts have one precision each. The
    precisions maximise the marginal likelihood in Laplace's approximation [2]_, and are
    not below one. Without evidence against temperature scaling, the map is close to it.
    For more than 24 classes, the approximation treats the off-diagonal elements as
    independent given the data.

    References
    ----------
    .. [1] M. Kull, M. Perello-Nieto, M. Kängsepp, T. Silva Filho, H. Song and P. Flach,
       "Beyond Temperature Scaling: Obtaining Well-Calibrated Multiclass Probabilities
       with Dirichlet Calibration", NeurIPS 2019, equation 5 and section 3.

    .. [2] D. J. C. MacKay, "Bayesian Interpolation", Neural Computation 4, 1992,
       equation 4.8.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import DirichletCalibrator
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(5000, 3))
    >>> mixed = logits + [1, 0, -1] + 0.5 * logits[:, ::-1]
    >>> y = (mixed + rng.gumbel(size=(5000, 3))).argmax(axis=1)
    >>> calibrator = DirichletCalibrator(penalty="odir", lambd=0.01, from_logits=True)
    >>> calibrator = calibrator.fit(logits, y)
    >>> round(calibrator.log_loss_before_, 2), round(calibrator.log_loss_after_, 2)
    (0.98, 0.69)
    """

    _errors_needed = errors_needed(10, 2)
    _parameter_constraints = {
        **_PenalisedCalibrator._parameter_constraints,
        "diagonal": ["boolean"],
    }

    def __init__(
        self,
        *,
        diagonal: bool = False,
        penalty: str = "none",
        lambd: ArrayLike = "cv",
        mu: ArrayLike | None = None,
        from_logits: bool = False,
    ) -> None:
        super().__init__(penalty=penalty, lambd=lambd, mu=mu, from_logits=from_logits)
        self.diagonal = diagonal

    @property
    def _kind(self) -> Any:
        return DiagonalMap() if self.diagonal else FullMap()

    def _features(self, logits: Values) -> Values:
        return log_softmax(logits)
