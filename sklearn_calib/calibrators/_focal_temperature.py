"""Calibrators that undo the focal loss, without and with a temperature."""

from numbers import Real

import numpy as np

from sklearn_calib._core.focal_fit import fit_focal_temperature, fit_gamma
from sklearn_calib._core.links import focal_posterior, softmax
from sklearn_calib._core.typing import Floats, Ints, Weights
from sklearn_calib._core.validation import Interval, StrOptions
from sklearn_calib.calibrators._base import Calibrator, by_blocks

GAMMA = {"gamma": [Interval(Real, 0, np.inf, closed="left"), StrOptions({"auto"})]}


class FocalPosterior(Calibrator):
    r"""Undo what the focal loss does to the probabilities of a network.

    A network that minimises the expected focal loss does not say the posterior, but a
    known map of it, which is inverted [1]_. As no other calibrator, it needs no data
    if gamma is known; the order of the classes stays.

    Parameters
    ----------
    gamma : float or "auto", default="auto"
        The gamma of the focal loss that the network was trained with, at least 0; with
        0 nothing changes. Or "auto": that in [0, 20] with the smallest negative
        log-likelihood on the given data.

    from_logits : bool, default=False
        Whether X holds logits. Never guessed.

    Attributes
    ----------
    gamma_ : float
        The gamma in use.

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
        True: the most probable class stays, up to rounding.

    See Also
    --------
    FocalTemperatureScaling : With a temperature besides.

    Notes
    -----
    With q the given probabilities, the calibrated ones are proportional to
    :math:`q / \left((1 - q)^\gamma - \gamma (1 - q)^{\gamma - 1} q \log q\right)`. A
    class that leads gains; where all of many have a chance, the first loses a little.
    For overconfident probabilities "auto" finds 0.

    A network that is trained too long or too short does not minimise the expected loss,
    and the gamma that it was trained with need not be the best.

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

    _parameter_constraints = {**Calibrator._parameter_constraints, **GAMMA}

    def __init__(
        self, *, gamma: float | str = "auto", from_logits: bool = False
    ) -> None:
        self.gamma = gamma
        self.from_logits = from_logits

    @property
    def _errors_needed(self) -> tuple[int, float]:
        return (10, 0) if self.gamma == "auto" else (0, 0)

    def _fit(self, logits: Floats, codes: Ints, sample_weight: Weights) -> None:
        is_auto = self.gamma == "auto"
        fitted = fit_gamma(logits, codes, sample_weight) if is_auto else self.gamma
        self.gamma_ = float(fitted)

    def _calibrate(self, logits: Floats) -> Floats:
        return _calibrate(logits, 1.0, self.gamma_)


class FocalTemperatureScaling(Calibrator):
    r"""Divide the logits by a temperature, then undo the focal loss.

    Temperature scaling with a second parameter, gamma: the map that turns what the
    focal loss is minimal at into the posterior comes after the softmax [1]_. The order
    of the classes stays. Where gamma is 0 it is temperature scaling.

    Parameters
    ----------
    gamma : float or "auto", default="auto"
        At least 0, such as the gamma of the focal loss that the network was trained
        with. Or "auto": it is found together with the temperature, in [0, 20].

    from_logits : bool, default=False
        Whether X holds logits. Never guessed.

    Attributes
    ----------
    temperature_ : float
        T, finite and positive.

    gamma_ : float
        The gamma in use.

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
        True: the most probable class stays, up to rounding.

    See Also
    --------
    TemperatureScaling : With gamma 0.
    FocalPosterior : With temperature 1.

    Notes
    -----
    The negative log-likelihood on the given data is minimised to full precision, where
    the authors search grids. Logits multiplied by a constant give a temperature
    multiplied by the same. Where :class:`TemperatureScaling` has no optimum and takes a
    bound, that is what "auto" returns, and another gamma comes as near to its
    probabilities as it can.

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

    _parameter_constraints = {**Calibrator._parameter_constraints, **GAMMA}

    def __init__(
        self, *, gamma: float | str = "auto", from_logits: bool = False
    ) -> None:
        self.gamma = gamma
        self.from_logits = from_logits

    def _fit(self, logits: Floats, codes: Ints, sample_weight: Weights) -> None:
        self.temperature_, self.gamma_ = fit_focal_temperature(
            logits,
            codes,
            sample_weight,
            gamma=None if isinstance(self.gamma, str) else self.gamma,
        )

    def _calibrate(self, logits: Floats) -> Floats:
        return _calibrate(logits, self.temperature_, self.gamma_)


def _calibrate(logits: Floats, temperature: float, gamma: float) -> Floats:
    """Return the focal posterior of the softmax of logits / temperature."""

    def posterior(block: Floats) -> Floats:
        block = np.ascontiguousarray(block)
        return focal_posterior(softmax(block / temperature), gamma)

    return by_blocks(posterior, logits)
