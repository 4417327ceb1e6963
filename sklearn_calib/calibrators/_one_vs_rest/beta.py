"""Beta calibration: a likelihood ratio of two beta distributions."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sklearn_calib._expressions.symbol import Values, softplus
from sklearn_calib._solvers.logistic import fit_nonnegative
from sklearn_calib._state.schema import Numbers
from sklearn_calib._validation.declarations import StrOptions
from sklearn_calib._validation.types import Array, Floats
from sklearn_calib.calibrators._one_vs_rest.online_logistic import _OnlineLogistic

# a, b and c as linear functions of the fitted parameters. For "ab", c is (a - b) log 2,
# so that a probability of one half is not changed.
BASES = {
    "abm": np.eye(3),
    "am": np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
    "ab": np.array([[1.0, 0.0], [0.0, 1.0], [np.log(2), -np.log(2)]]),
}


class BetaCalibration(_OnlineLogistic):
    r"""Beta calibration: map probabilities by a likelihood ratio of beta distributions.

    The calibrated log-odds are :math:`a \log p - b \log(1 - p) + c` with non-negative a
    and b ([1]_, equation 5). Unlike Platt scaling, the map can have different shapes
    near 0 and near 1.

    Parameters
    ----------
    parameters : {"abm", "am", "ab"}, default="abm"
        Parameters to fit. "abm" fits a, b and c. "am" fits a = b and c, which is Platt
        scaling without smoothed targets. "ab" fits a and b, with the c for which a
        probability of one half does not change.

    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    maps_ : list of ndarray of shape (3,)
        a, b and c of each class (for two classes, only of the second).

    class_prior_ : ndarray of shape (n_classes,)
        Class frequencies, with one pseudo-count added to each class.

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
        False: each class has its own map, so the predicted class may change.

    See Also
    --------
    PlattScaling : Two parameters, with smoothed targets.

    Notes
    -----
    The likelihood is maximised in full precision. The optimiser of the authors' package
    stops earlier: in our tests, its exponents differ by up to 2 %, and its intercept by
    more than 10 %. If an exponent would be negative, it is set to 0 and the other
    parameters are fitted again. For more than two classes, the rows are normalised.

    If a class is separable from the rest, the log loss has no minimum. The targets are
    then smoothed, with a `ConvergenceWarning`.

    :meth:`partial_fit` updates the maps with new samples.

    References
    ----------
    .. [1] M. Kull, T. Silva Filho and P. Flach, "Beta Calibration: A Well-founded and
       Easily Implemented Improvement on Logistic Calibration for Binary Classifiers",
       AISTATS 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import BetaCalibration
    >>> from sklearn_calib.metrics import expected_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(1000, 3))
    >>> y = (logits + rng.gumbel(size=(1000, 3))).argmax(axis=1)
    >>> calibrator = BetaCalibration(from_logits=True).fit(3 * logits, y)
    >>> bool(expected_calibration_error(y, calibrator.predict_proba(3 * logits)) < 0.04)
    True
    """

    _errors_needed = 10, 1
    _returns_log_odds = True
    _map = Numbers(3)
    _identity_map = 1.0, 1.0, 0.0
    _parameter_constraints = {
        **_OnlineLogistic._parameter_constraints,
        "parameters": [StrOptions({"abm", "am", "ab"})],
    }

    def __init__(self, *, parameters: str = "abm", from_logits: bool = False) -> None:
        self.parameters = parameters
        self.from_logits = from_logits

    @property
    def _basis(self) -> Floats:
        return BASES[self.parameters]

    @property
    def _n_nonnegative(self) -> int:
        return 1 if self.parameters == "am" else 2

    def _fit_map(self, log_odds: Floats, target: Array, sample_weight: Floats) -> Any:
        features = self._features(log_odds) @ self._basis
        n_nonnegative = self._n_nonnegative
        fitted = fit_nonnegative(features, n_nonnegative, target, sample_weight)
        return self._basis @ fitted

    @staticmethod
    def _inputs(log_odds: Values) -> Sequence[Values]:
        """Return log p and -log(1 - p)."""
        return [-softplus(-log_odds), softplus(log_odds)]
