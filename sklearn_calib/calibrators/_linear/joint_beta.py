"""Joint beta calibration of all classes."""

from sklearn_calib._expressions.rows import log_proba_and_rest
from sklearn_calib._expressions.symbol import Values, hstack
from sklearn_calib._validation.declarations import StrOptions
from sklearn_calib.calibrators._linear.linear_calibrator import (
    EMPIRICAL_BAYES,
    _PenalisedCalibrator,
    errors_needed,
)
from sklearn_calib.calibrators._linear.multinomial_maps import DiagonalMap


class JointBetaCalibration(_PenalisedCalibrator):
    r"""Joint beta calibration: beta maps of all classes, fitted together by softmax.

    The calibrated probabilities are the softmax of :math:`a_k \log p_k - b_k \log(1 -
    p_k) + c_k`. For two classes, this is beta calibration [1]_ without constraints on
    the exponents. For more classes, :class:`BetaCalibration` fits each class separately
    and normalises the rows, while this calibrator maximises the likelihood of the
    returned probabilities, under priors around :class:`TemperatureScaling`.

    Parameters
    ----------
    penalty : {"none", "empirical_bayes"}, default="empirical_bayes"
        "empirical_bayes" shrinks towards temperature scaling; the strengths are
        estimated from the data, see Notes. "none" maximises the likelihood, as beta
        calibration [1]_ does.

    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, 2)
        The exponents a and b of each class.

    intercept_ : ndarray of shape (n_classes,)
        The intercepts c.

    prior_precision_ : ndarray of shape (3,)
        Precisions of the priors on a, b and c. Defined only with
        `penalty="empirical_bayes"`.

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
    BetaCalibration : One-vs-rest, with non-negative exponents.
    DirichletCalibrator : Affine map of the log-probabilities of all classes.

    Notes
    -----
    With `penalty="none"`, the log loss is minimised in full precision by Newton's
    method. On the data of `fit`, it does not exceed the log loss before calibration,
    nor that of vector scaling of log-probabilities, which is the special case b = 0. If
    the classes are separable, the log loss has no minimum. In this case, and if a class
    has fewer than three samples, the map is shrunk towards temperature scaling by
    normal priors, with a `ConvergenceWarning`.

    Adding a constant to all intercepts does not change the probabilities. Of these
    equivalent maps, the one closest to temperature scaling is returned.

    With `penalty="empirical_bayes"`, let T be the temperature of
    :class:`TemperatureScaling`, q its probabilities, and m_k and n_k the means of log
    p_k and -log(1 - p_k), weighted by q_k (1 - q_k). The T a_k, T b_k and a_k m_k + b_k
    n_k + c_k have independent normal priors around 1, 0 and m_k / T, their values in
    temperature scaling, with one precision each for a, b and c. The precisions maximise
    the marginal likelihood in Laplace's approximation [2]_, and are not below one.
    Without evidence against temperature scaling, the map is close to it.

    References
    ----------
    .. [1] M. Kull, T. Silva Filho and P. Flach, "Beta Calibration: A Well-founded and
       Easily Implemented Improvement on Logistic Calibration for Binary Classifiers",
       AISTATS 2017, equation 5.

    .. [2] D. J. C. MacKay, "Bayesian Interpolation", Neural Computation 4, 1992,
       equation 4.8.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import JointBetaCalibration
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(2000, 3))
    >>> y = (logits + [1, 0, -1] + rng.gumbel(size=(2000, 3))).argmax(axis=1)
    >>> calibrator = JointBetaCalibration(from_logits=True).fit(3 * logits, y)
    >>> round(calibrator.log_loss_before_, 1), round(calibrator.log_loss_after_, 1)
    (1.5, 0.7)
    """

    _errors_needed = errors_needed(20, 1)
    _kind = DiagonalMap(n_inputs=2)
    _parameter_constraints = {
        **_PenalisedCalibrator._parameter_constraints,
        "penalty": [StrOptions({"none", EMPIRICAL_BAYES})],
    }
    lambd, mu = "cv", None

    def __init__(
        self, *, penalty: str = EMPIRICAL_BAYES, from_logits: bool = False
    ) -> None:
        self.penalty = penalty
        self.from_logits = from_logits

    def _features(self, logits: Values) -> Values:
        log_proba, log_rest = log_proba_and_rest(logits)
        return hstack([log_proba, -log_rest]).astype(logits.dtype, copy=False)
