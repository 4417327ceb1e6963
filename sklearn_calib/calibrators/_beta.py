"""Beta calibration: powers of the probabilities of a class and of the rest."""

from typing import Any

import numpy as np

from sklearn_calib._core.logistic import fit_nonnegative
from sklearn_calib._core.typing import Array, Floats
from sklearn_calib._core.validation import StrOptions
from sklearn_calib.calibrators._one_vs_rest import _OneVsRestCalibrator


class BetaCalibration(_OneVsRestCalibrator):
    r"""Map the probability of each class by the ratio of two beta densities.

    The log-odds become :math:`a \log p - b \log(1 - p) + c` with a and b of at least 0
    ([1]_, equation 5). In contrast to Platt scaling the two ends can be bent
    differently, and the identity is among the maps.

    Parameters
    ----------
    parameters : {"abm", "am", "ab"}, default="abm"
        What is fitted: all three; c and one exponent, a = b, which is Platt scaling; or
        two exponents, with a probability of one half kept.

    from_logits : bool, default=False
        Whether X holds logits. Never guessed.

    Attributes
    ----------
    maps_ : list of ndarray of shape (3,)
        a, b and c of each class, of two for the second alone.

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
    PlattScaling : Two parameters, and smoothed targets.

    Notes
    -----
    The maximum of the likelihood is found to full precision. The authors' package ends
    its optimiser early, with coefficients up to 2 % off. Where an exponent would be
    negative it is 0 and the others are fitted anew. Of more than two classes the rows
    are divided by their sums.

    When hits and misses can be separated, the log loss has no minimum; then the targets
    are smoothed, with a `ConvergenceWarning`.

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
    _parameter_constraints = {
        **_OneVsRestCalibrator._parameter_constraints,
        "parameters": [StrOptions({"abm", "am", "ab"})],
    }

    def __init__(self, *, parameters: str = "abm", from_logits: bool = False) -> None:
        self.parameters = parameters
        self.from_logits = from_logits

    def _fit_map(self, log_odds: Floats, hit: Array, sample_weight: Floats) -> Any:
        features = _features(log_odds)
        if self.parameters == "am":
            ends = np.column_stack([features[:, 0] + features[:, 1], features[:, 2]])
            slope, intercept = fit_nonnegative(ends, 1, hit, sample_weight)
            return np.array([slope, slope, intercept])
        if self.parameters == "abm":
            return fit_nonnegative(features, 2, hit, sample_weight)
        # With c = (a - b) log 2 the map goes through one half.
        ends = features[:, :2] + np.log(2) * np.array([1, -1])
        a, b = fit_nonnegative(ends, 2, hit, sample_weight)
        return np.array([a, b, (a - b) * np.log(2)])

    def _apply_map(self, fitted: Any, log_odds: Floats) -> Floats:
        return _features(log_odds) @ fitted


def _features(log_odds: Floats) -> Floats:
    """Return log p, -log(1 - p) and 1."""
    parts = -np.logaddexp(0, -log_odds), np.logaddexp(0, log_odds)
    return np.column_stack([*parts, np.ones_like(log_odds)])
