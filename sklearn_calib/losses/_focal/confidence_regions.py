"""Regions of over- and underconfidence of the focal and the dual focal loss."""

from math import e, log, log1p, nextafter
from numbers import Real

from scipy.optimize import brentq

from sklearn_calib._validation.declarations import (
    ABOVE_0,
    Interval,
    validate_params,
)

TINY = 1e-300


@validate_params(
    {"gamma": ABOVE_0, "competitor": [Interval(Real, 0, 1, closed="left")]}
)
def confidence_regions(gamma: float, competitor: float = 0.0) -> tuple[float, float]:
    r"""Confidence regions: over- and underconfidence of the focal and dual focal loss.

    If a network minimises the expected focal loss, a confidence of at most `v_over` is
    above the true probability of the predicted class, and one of at least `v_under` is
    below it [1]_. In between, it depends on the other classes.

    Parameters
    ----------
    gamma : float
        Exponent of the weight, above 0.
    competitor : float, default=0.0
        The probability q of the dual focal loss, in [0, 1), as a constant. With 0, the
        regions are those of the focal loss.

    Returns
    -------
    v_over : float
        Upper end of the overconfident region, which starts at 0.
    v_under : float
        Lower end of the underconfident region, which ends at 1.

    See Also
    --------
    sklearn_calib.displays.LossCurveDisplay : Draws phi and the regions.
    FocalLoss.posterior : The true probabilities themselves.

    Notes
    -----
    The true probability of a class with the predicted probability v is proportional to
    :math:`v / \phi(v)` with

    .. math:: \phi(v) = (1 - v + q)^\gamma - \gamma (1 - v + q)^{\gamma - 1} v \log v.

    `v_over` is where :math:`\phi` is largest, and `v_under` is the larger value with
    :math:`\phi(v) = 1`.

    For q above 0, this holds in the model of the paper only, whose equation 9 omits the
    gradient through q. With gamma 1 and true probabilities 0.6, 0.3 and 0.1, the dual
    focal loss itself is smallest at 0.624, 0.289 and 0.087: the confidence is too high,
    although the underconfident region for q = 0.289 starts at 0.597.

    References
    ----------
    .. [1] L. Tao, M. Dong and C. Xu, "Dual Focal Loss for Calibration", ICML 2023,
       lemma 1, equation 13 and figure 1.

    Examples
    --------
    >>> from sklearn_calib.losses import confidence_regions
    >>> "{:.3f} {:.3f}".format(*confidence_regions(1.0))
    '0.135 0.368'
    >>> "{:.3f} {:.3f}".format(*confidence_regions(1.0, competitor=0.3))
    '0.135 0.604'
    """

    def slope(v: float) -> float:  # the sign of the derivative of phi
        return 2 * (v - 1 - competitor) + (gamma * v - 1 - competitor) * log(v)

    def log_phi(v: float) -> float:
        base = 1 - v + competitor
        return gamma * log(base) + log1p(-gamma * v * log(v) / base)

    # The slope is negative at 1 / e for all parameters, and phi is below 1 at 1.
    v_over = brentq(slope, TINY, 1 / e)
    v_under = brentq(log_phi, v_over, 1.0 if competitor else nextafter(1, 0))
    return v_over, v_under
