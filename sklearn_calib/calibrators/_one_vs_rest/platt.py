"""Platt scaling: a linear function of the log-odds."""

from collections.abc import Sequence
from typing import Any

from sklearn_calib._expressions.symbol import Values
from sklearn_calib._solvers.logistic import (
    fit_logistic,
    newton_logistic,
    smoothed_targets,
)
from sklearn_calib._state.schema import Numbers
from sklearn_calib._validation.types import Array, Floats
from sklearn_calib.calibrators._one_vs_rest.online_logistic import _OnlineLogistic


class PlattScaling(_OnlineLogistic):
    r"""Platt scaling: logistic regression on the log-odds of each class.

    The calibrated probability is :math:`\sigma(a\, \mathrm{logit}(p) + b)` [1]_. For
    each class, the slope a corrects over- or underconfidence, and the intercept b
    corrects a wrong class frequency.

    Parameters
    ----------
    smooth_targets : bool, default=True
        Whether to use Platt's smoothed targets :math:`(n_1 + 1) / (n_1 + 2)` and
        :math:`1 / (n_0 + 2)` instead of 1 and 0, which keeps the slope finite. False
        gives the maximum likelihood estimate.

    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    maps_ : list of ndarray of shape (2,)
        a and b of each class (for two classes, only of the second).

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
    BetaCalibration : One more parameter, for different shapes near 0 and near 1.
    QuadraticLogisticCalibration : Adds a quadratic term in the log-odds.

    Notes
    -----
    scikit-learn's `CalibratedClassifierCV(method="sigmoid")` uses the decision
    function, or the probabilities themselves if there is none. A sigmoid function of
    the probabilities cannot be the identity; with log-odds, the identity is a = 1 and b
    = 0. For more than two classes, the rows are normalised. For margins of many
    classes, such as those of a support vector machine, the result is often
    underconfident; use `CalibratedClassifier` with "auto".

    With `smooth_targets=False`, the log loss has no minimum if a class is separable
    from the rest. Smoothed targets are then used, with a `ConvergenceWarning`.

    :meth:`partial_fit` updates the maps with new samples.

    References
    ----------
    .. [1] J. Platt, "Probabilistic Outputs for Support Vector Machines and Comparisons
       to Regularized Likelihood Methods", Advances in Large Margin Classifiers, 1999.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import PlattScaling
    >>> from sklearn_calib.metrics import expected_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(1000, 3))
    >>> y = (logits + rng.gumbel(size=(1000, 3))).argmax(axis=1)
    >>> calibrator = PlattScaling(from_logits=True).fit(3 * logits, y)
    >>> bool(expected_calibration_error(y, calibrator.predict_proba(3 * logits)) < 0.04)
    True
    """

    _errors_needed = 50, 1
    _returns_log_odds = True
    _map = Numbers(2)
    _identity_map = 1.0, 0.0
    _parameter_constraints = {
        **_OnlineLogistic._parameter_constraints,
        "smooth_targets": ["boolean"],
    }

    def __init__(
        self, *, smooth_targets: bool = True, from_logits: bool = False
    ) -> None:
        self.smooth_targets = smooth_targets
        self.from_logits = from_logits

    def _fit_map(self, log_odds: Floats, target: Array, sample_weight: Floats) -> Any:
        features = self._features(log_odds)
        if not self.smooth_targets:
            return fit_logistic(features, target, sample_weight)
        target = smoothed_targets(target, sample_weight)
        return newton_logistic(features, target, sample_weight)[0]

    @staticmethod
    def _inputs(log_odds: Values) -> Sequence[Values]:
        return [log_odds]
