"""Beta calibration of all classes at once."""

import numpy as np

from sklearn_calib._core.links import log_odds
from sklearn_calib._core.multinomial_maps import PairMap
from sklearn_calib._core.typing import Floats
from sklearn_calib.calibrators._multinomial import _PenalisedCalibrator


class JointBetaCalibration(_PenalisedCalibrator):
    r"""Bend the probability of each class at both ends, and fit all classes together.

    The calibrated probabilities are the softmax of
    :math:`a_k \log p_k - b_k \log(1 - p_k) + c_k`. For two classes that is beta
    calibration [1]_ without a bound on the exponents; for more,
    :class:`BetaCalibration` fits each class by itself and divides by the sum, and this
    one maximises the likelihood of what is returned. It contains vector scaling of the
    logarithms (b = 0), whose log loss on the data of the fit it is never above.

    Parameters
    ----------
    from_logits : bool, default=False
        Whether X holds logits. Never guessed.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, 2)
        The exponents a and b of each class.

    intercept_ : ndarray of shape (n_classes,)
        The intercepts c.

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
    BetaCalibration : Each class against the rest, with exponents of at least 0.
    DirichletCalibrator : The logarithms alone, if need be of all classes for each.

    Notes
    -----
    The log loss is minimised to full precision by Newton's method, and is never above
    that before the fit. Where it has no smallest value, as classes can be separated, or
    where a class has fewer than three samples, normal priors hold the map near
    temperature scaling, with a `ConvergenceWarning`. Of the maps that are the same,
    since a constant for all classes changes nothing, it is the one closest to
    temperature scaling.

    References
    ----------
    .. [1] M. Kull, T. Silva Filho and P. Flach, "Beta Calibration: A Well-founded and
       Easily Implemented Improvement on Logistic Calibration for Binary Classifiers",
       AISTATS 2017, equation 5.

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

    _errors_needed = 20, 1
    _kind = PairMap
    penalty, lambd, mu = "none", "cv", None

    def __init__(self, *, from_logits: bool = False) -> None:
        self.from_logits = from_logits

    def _features(self, logits: Floats) -> Floats:
        odds = log_odds(logits)
        both = np.hstack([-np.logaddexp(0, -odds), np.logaddexp(0, odds)])
        return both.astype(logits.dtype, copy=False)
