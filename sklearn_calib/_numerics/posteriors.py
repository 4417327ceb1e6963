"""Class posteriors from the probabilities that losses lead to.

A network that minimises the expected loss for true class probabilities eta predicts
probabilities q. For proper losses, q = eta. For others, such as focal losses, the
functions here compute eta from q and the parameters of the loss. They preserve the
order of the classes, 0 and 1, and the dtype.
"""

import math

import numpy as np
from scipy.special import logsumexp, xlogy

from sklearn_calib._numerics.softmax import softmax
from sklearn_calib._validation.types import Floats


def focal_posterior(proba: Floats, gamma: float) -> Floats:
    """Return the posterior for which `proba` minimises the focal loss.

    Let l(q) = -(1 - q)^gamma log q. The expected loss is minimal where eta_k l'(q_k) is
    the same for all classes k [1]_. As l is convex for any gamma >= 0, the minimum is
    unique and the map is one-to-one.

    Parameters
    ----------
    proba : ndarray of shape (n_samples, n_classes)
        Probabilities in float32 or float64; rows sum to one up to rounding.

    gamma : float
        Non-negative.

    Returns
    -------
    posterior : ndarray of shape (n_samples, n_classes)

    References
    ----------
    .. [1] N. Charoenphakdee, J. Vongkulbhisal, N. Chairatanakul and M. Sugiyama, "On
       Focal Loss for Class-Posterior Probability Estimation: A Theoretical
       Perspective", CVPR 2021, theorem 11.
    """
    log_q, log_rest, ratio = focal_terms(proba)
    return softmax(log_q - gamma * log_rest - np.log1p(gamma * ratio))


def inverse_focal_posterior(proba: Floats, gamma: float) -> Floats:
    """Return the posterior for which `proba` minimises the inverse focal loss.

    Like :func:`focal_posterior`, with (1 + q)^gamma and gamma in [0, 1]. For larger
    gamma, the loss is not convex: some probabilities are not the minimiser for any
    posterior, and the map would change the order of classes.
    """
    proba = _normalize(proba)
    log_phi = gamma * np.log1p(proba)
    log_phi += np.log1p(gamma * xlogy(proba, proba) / (1 + proba))
    return softmax(_log(proba) - log_phi)


def focal_calibration_posterior(
    proba: Floats,
    gamma: float,
    lambd: float,
    *,
    norm: str = "l2",
    gamma_cal: float | None = None,
) -> Floats:
    """Return the posterior for which `proba` minimises the focal calibration loss.

    Let g = -l' with l as in :func:`focal_posterior`. For the norm "l2", the minimum is
    where eta_k (g(q_k) + 2 lambd) - 2 lambd q_k is the same number t for all classes k.
    As the eta_k sum to one, t is known. For "l1", eta_k (g(q_k) + 2 lambd) is the same
    for all k.

    Parameters
    ----------
    proba : ndarray of shape (n_samples, n_classes)
        Probabilities in float32 or float64; rows sum to one up to rounding.

    gamma, lambd : float
        Non-negative.

    norm : {"l2", "l1"}, default="l2"
        Norm of the calibration term of the loss.

    gamma_cal : float, default=None
        If given, 2 lambd is replaced by 2 lambd (1 - q_k)^gamma_cal. As the loss treats
        this weight as a constant, `proba` is then the point where its expected gradient
        is zero.

    Returns
    -------
    posterior : ndarray of shape (n_samples, n_classes)
    """
    if lambd == 0:
        return focal_posterior(proba, gamma)
    log_q, log_rest, ratio = focal_terms(proba)
    log_phi = gamma * log_rest + np.log1p(gamma * ratio)
    log_weight = math.log(2 * lambd) + (gamma_cal or 0.0) * log_rest
    # The logarithm of 1 / (g + 2 lambd (1 - q)^gamma_cal), with phi = q g.
    log_unit = log_q - np.logaddexp(log_phi, log_weight + log_q)
    if norm == "l1":
        return softmax(log_unit)
    # t / (2 lambd). The numerator is the sum of q g / (g + ...), as 1 minus the other
    # terms would cancel.
    log_t = logsumexp(log_phi + log_unit, axis=1, keepdims=True)
    log_t = log_t - logsumexp(log_weight + log_unit, axis=1, keepdims=True)
    return softmax(np.logaddexp(log_q, log_t) + log_unit)


def focal_terms(proba: Floats) -> tuple[Floats, Floats, Floats]:
    """Return log q, log(1 - q) and r = -q log q / (1 - q), which is 1 at q = 1."""
    proba = _normalize(proba)
    # For a large probability, 1 - q is computed exactly as the sum of the others.
    is_large = proba > 0.5
    others = np.where(is_large, 0, proba).sum(axis=1, keepdims=True)
    rest = np.where(is_large, others, 1 - proba)
    # If 1 - q is 0, its value does not matter: all other probabilities are 0.
    np.maximum(rest, np.finfo(rest.dtype).tiny, out=rest)
    log_q = np.where(is_large, np.log1p(-rest * is_large), _log(proba))
    product = np.multiply(proba, log_q, where=proba > 0, out=np.zeros_like(proba))
    return log_q, np.log(rest), -product / rest


def _normalize(proba: Floats) -> Floats:
    """Return rows that sum to one in full precision."""
    return proba / proba.sum(axis=1, keepdims=True)


def _log(proba: Floats) -> Floats:
    """Return logarithms; minus infinity for 0."""
    return np.log(proba, where=proba > 0, out=np.full_like(proba, -np.inf))
