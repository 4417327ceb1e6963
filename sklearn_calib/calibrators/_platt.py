"""Platt scaling: a straight line of the log-odds."""

from typing import Any

import numpy as np

from sklearn_calib._core.logistic import (
    fit_logistic,
    newton_logistic,
    smoothed_targets,
)
from sklearn_calib._core.typing import Array, Floats
from sklearn_calib.calibrators._one_vs_rest import _OneVsRestCalibrator


class PlattScaling(_OneVsRestCalibrator):
    r"""Map the log-odds of each class by a straight line, fitted by log loss.

    The calibrated probability is :math:`\sigma(a\, \mathrm{logit}(p) + b)` [1]_: two
    parameters a class, enough for sharpened probabilities and for a wrong frequency.

    Parameters
    ----------
    smooth_targets : bool, default=True
        Whether to fit to Platt's targets :math:`(n_1 + 1) / (n_1 + 2)` and
        :math:`1 / (n_0 + 2)` instead of 1 and 0, which keeps the slope finite. False
        is the maximum of the likelihood.

    from_logits : bool, default=False
        Whether X holds logits. Never guessed.

    Attributes
    ----------
    maps_ : list of ndarray of shape (2,)
        a and b of each class, of two for the second alone.

    class_prior_ : ndarray of shape (n_classes,)
        Frequencies of the classes, with one more sample of each.

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
        False: each class has its own map.

    See Also
    --------
    BetaCalibration : Bends differently at the two ends.
    QuadraticLogisticCalibration : Has a square of the log-odds too.

    Notes
    -----
    scikit-learn's `CalibratedClassifierCV(method="sigmoid")` draws the line through
    whatever the decision function says, and through the probabilities themselves where
    there is none: then it can not even leave them as they are. Log-odds can, with
    a = 1 and b = 0. Of more than two classes the rows are divided by their sums.

    When hits and misses can be separated, the log loss has no minimum; then the targets
    are smoothed, with a `ConvergenceWarning`.

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
    _parameter_constraints = {
        **_OneVsRestCalibrator._parameter_constraints,
        "smooth_targets": ["boolean"],
    }

    def __init__(
        self, *, smooth_targets: bool = True, from_logits: bool = False
    ) -> None:
        self.smooth_targets = smooth_targets
        self.from_logits = from_logits

    def _fit_map(self, log_odds: Floats, hit: Array, sample_weight: Floats) -> Any:
        features = _features(log_odds)
        if not self.smooth_targets:
            return fit_logistic(features, hit, sample_weight)
        target = smoothed_targets(hit, sample_weight)
        return newton_logistic(features, target, sample_weight)[0]

    def _apply_map(self, fitted: Any, log_odds: Floats) -> Floats:
        return _features(log_odds) @ fitted


def _features(log_odds: Floats) -> Floats:
    return np.column_stack([log_odds, np.ones_like(log_odds)])
