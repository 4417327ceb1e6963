"""Focal posterior and focal temperature scaling."""

from numbers import Real

import numpy as np

from sklearn_calib._numerics.posteriors import focal_posterior
from sklearn_calib._numerics.sample_blocks import Blocks
from sklearn_calib._numerics.softmax import softmax
from sklearn_calib._state.schema import NON_NEGATIVE, POSITIVE, Number
from sklearn_calib._validation.declarations import Interval, StrOptions
from sklearn_calib._validation.types import Floats
from sklearn_calib.calibrators._base.block_calibrator import _BlockCalibrator
from sklearn_calib.calibrators._temperature.focal_fit import (
    fit_focal_temperature,
    fit_gamma,
)

GAMMA = {"gamma": [Interval(Real, 0, np.inf, closed="left"), StrOptions({"auto"})]}


class FocalPosterior(_BlockCalibrator):
    r"""Focal posterior: recover class posteriors of networks trained with focal loss.

    The focal loss is not a proper loss: a network that minimises its expectation
    predicts a known function of the class posterior. This calibrator inverts the
    function [1]_. It does not need data if gamma is known, and it does not change the
    order of the classes.

    Parameters
    ----------
    gamma : float or "auto", default="auto"
        Gamma of the focal loss that the network was trained with, at least 0. With 0,
        probabilities do not change. "auto" uses the gamma in [0, 20] with the lowest
        negative log-likelihood on the data of `fit`.

    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    gamma_ : float
        The gamma that is used.

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
        True: the predicted class does not change, up to rounding.

    See Also
    --------
    FocalTemperatureScaling : Also fits a temperature.

    Notes
    -----
    For predicted probabilities q, the calibrated probabilities are proportional to
    :math:`q / \left((1 - q)^\gamma - \gamma (1 - q)^{\gamma - 1} q \log q\right)`. The
    map usually increases the confidence; with many classes, it slightly decreases low
    confidences. For overconfident probabilities, "auto" finds gamma = 0.

    A network that overfits or underfits does not minimise the expected loss, so the
    gamma of the training loss need not be the best value.

    References
    ----------
    .. [1] N. Charoenphakdee, J. Vongkulbhisal, N. Chairatanakul and M. Sugiyama, "On
       Focal Loss for Class-Posterior Probability Estimation: A Theoretical
       Perspective", CVPR 2021, theorem 11.

    Examples
    --------
    >>> from sklearn_calib.calibrators import FocalPosterior
    >>> underconfident = [[0.558, 0.442], [0.442, 0.558]]
    >>> calibrator = FocalPosterior(gamma=3).fit(underconfident, [0, 1])
    >>> calibrator.predict_proba(underconfident).round(2)
    array([[0.7, 0.3],
           [0.3, 0.7]])
    """

    preserves_argmax = True
    _fitted = {"gamma_": Number(NON_NEGATIVE)}

    _parameter_constraints = {**_BlockCalibrator._parameter_constraints, **GAMMA}

    def __init__(
        self, *, gamma: float | str = "auto", from_logits: bool = False
    ) -> None:
        self.gamma = gamma
        self.from_logits = from_logits

    @property
    def _errors_needed(self) -> tuple[int, float]:
        return (10, 0) if self.gamma == "auto" else (0, 0)

    def _fit_blocks(self, data: Blocks) -> None:
        self.gamma_ = float(fit_gamma(data) if self.gamma == "auto" else self.gamma)

    def _calibrate(self, logits: Floats) -> Floats:
        return _calibrate(logits, 1.0, self.gamma_)


class FocalTemperatureScaling(_BlockCalibrator):
    r"""Focal temperature scaling: temperature scaling followed by the focal posterior.

    It is temperature scaling with a second parameter, gamma: the map of
    :class:`FocalPosterior` is applied after the softmax [1]_. The order of the classes
    does not change. With gamma = 0, it is temperature scaling.

    Parameters
    ----------
    gamma : float or "auto", default="auto"
        Non-negative exponent, for example the gamma of the focal loss that the network
        was trained with. "auto" fits gamma in [0, 20] together with the temperature.

    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    temperature_ : float
        T, finite and positive.

    gamma_ : float
        The gamma that is used.

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
        True: the predicted class does not change, up to rounding.

    See Also
    --------
    TemperatureScaling : The case gamma = 0.
    FocalPosterior : The case T = 1.

    Notes
    -----
    The negative log-likelihood on the data of `fit` is minimised in full precision; the
    authors use a grid search. The temperature is proportional to the scale of the
    logits. If the temperature of :class:`TemperatureScaling` is a bound, "auto" uses
    this bound and gamma = 0; with a given gamma, the temperature is chosen such that
    the probabilities are similar to those of the bound.

    References
    ----------
    .. [1] V. Komisarenko and M. Kull, "Improving Calibration by Relating Focal Loss,
       Temperature Scaling, and Properness", ECAI 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import FocalTemperatureScaling
    >>> rng = np.random.default_rng(0)
    >>> logits = 2 * rng.normal(size=(1000, 3))
    >>> y = (logits + rng.gumbel(size=(1000, 3))).argmax(axis=1)
    >>> overconfident = 3 * logits
    >>> calibrator = FocalTemperatureScaling(gamma=1, from_logits=True)
    >>> calibrator.fit(overconfident, y).predict_proba(overconfident[:2]).round(1)
    array([[0.2, 0.1, 0.6],
           [0.3, 0.1, 0.6]])
    """

    _errors_needed = 10, 0
    preserves_argmax = True
    _fitted = {"temperature_": Number(POSITIVE), "gamma_": Number(NON_NEGATIVE)}

    _parameter_constraints = {**_BlockCalibrator._parameter_constraints, **GAMMA}

    def __init__(
        self, *, gamma: float | str = "auto", from_logits: bool = False
    ) -> None:
        self.gamma = gamma
        self.from_logits = from_logits

    def _fit_blocks(self, data: Blocks) -> None:
        gamma = None if isinstance(self.gamma, str) else self.gamma
        self.temperature_, self.gamma_ = fit_focal_temperature(data, gamma=gamma)

    def _calibrate(self, logits: Floats) -> Floats:
        return _calibrate(logits, self.temperature_, self.gamma_)


def _calibrate(logits: Floats, temperature: float, gamma: float) -> Floats:
    """Return the focal posterior of the softmax of logits / temperature."""
    logits = np.ascontiguousarray(logits)
    return focal_posterior(softmax(logits / temperature), gamma)
