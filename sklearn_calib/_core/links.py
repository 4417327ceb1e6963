"""From logits to probabilities, and from what a loss is minimal at to the posterior.

For classes with true probabilities eta, the network that a loss is minimal at says q,
which is eta for a proper loss only. The maps here return eta for q. They keep the order
of the classes, 0 and 1, and the dtype, and need nothing but the parameters of the loss.
"""

import math

import numpy as np
from scipy.special import logsumexp, xlog1py, xlogy

from sklearn_calib._core.typing import Floats


def softmax(logits: Floats) -> Floats:
    """Return the softmax of each row, in the dtype of the logits."""
    proba = logits - logits.max(axis=1, keepdims=True)
    np.exp(proba, out=proba)
    proba /= proba.sum(axis=1, keepdims=True)
    return proba


def log_softmax(logits: Floats) -> Floats:
    """Return the logarithm of the softmax of each row, in the dtype of the logits."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted


def focal_posterior(proba: Floats, gamma: float) -> Floats:
    """Return the posterior at which the focal loss is minimal at `proba`.

    With -l'(q) the derivative of (1 - q)^gamma log q, the expected loss is minimal
    where eta_k (-l'(q_k)) is the same for all k [1]_. As l is convex for any gamma >= 0
    this is its only minimum, and the map is one to one.

    Parameters
    ----------
    proba : ndarray of shape (n_samples, n_classes)
        float32 or float64, rows sum to about one.

    gamma : float
        At least 0.

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
    """Return the posterior at which the inverse focal loss is minimal at `proba`.

    As :func:`focal_posterior`, with (1 + q)^gamma and gamma in [0, 1]. Above, the loss
    is not convex: there are probabilities that minimise it for no posterior, and the
    map would change the order of some.
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
    """Return the posterior at which the focal calibration loss is minimal at `proba`.

    With g = -l' as in :func:`focal_posterior`, the minimum for norm "l2" is where
    eta_k (g(q_k) + 2 lambd) - 2 lambd q_k is the same number t for all k, which is
    known as the eta_k sum to one. For "l1", eta_k (g(q_k) + 2 lambd) is the same.

    Parameters
    ----------
    proba : ndarray of shape (n_samples, n_classes)
        float32 or float64, rows sum to about one.

    gamma, lambd : float
        At least 0.

    norm : {"l2", "l1"}, default="l2"
        The distance of the loss.

    gamma_cal : float, default=None
        If given, 2 lambd becomes 2 lambd (1 - q_k)^gamma_cal. As the loss holds this
        weight constant, it is where its gradient vanishes on average.

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
    # t / (2 lambd), whose numerator sums q g / (g + ...) and not 1 minus the others.
    log_t = logsumexp(log_phi + log_unit, axis=1, keepdims=True)
    log_t = log_t - logsumexp(log_weight + log_unit, axis=1, keepdims=True)
    return softmax(np.logaddexp(log_q, log_t) + log_unit)


def focal_terms(proba: Floats) -> tuple[Floats, Floats, Floats]:
    """Return log q, log(1 - q) and r = -q log q / (1 - q), which is 1 at q = 1."""
    proba = _normalize(proba)
    # What a large probability lacks to one is known exactly from the others.
    is_large = proba > 0.5
    others = np.where(is_large, 0, proba).sum(axis=1, keepdims=True)
    rest = np.where(is_large, others, 1 - proba)
    # Any number in place of 0 will do: the probabilities of all other classes are 0.
    np.maximum(rest, np.finfo(rest.dtype).tiny, out=rest)
    log_q = np.where(is_large, np.log1p(-rest * is_large), _log(proba))
    ratio = -np.where(is_large, xlog1py(proba, -rest), xlogy(proba, proba)) / rest
    return log_q, np.log(rest), ratio


def _normalize(proba: Floats) -> Floats:
    """Return rows that sum to one to full precision."""
    return proba / proba.sum(axis=1, keepdims=True)


def _log(proba: Floats) -> Floats:
    """Return the logarithms, of 0 minus infinity."""
    return np.log(proba, where=proba > 0, out=np.full_like(proba, -np.inf))


def lift_zeros(proba: Floats, zero: float) -> Floats:
    """Return probabilities of at least `zero`, in their order; from twice it as is."""
    lifted = proba / 2
    lifted += zero
    return np.maximum(proba, lifted, out=lifted)


def log_odds_of_proba(log_proba: Floats, zero: float) -> Floats:
    """Return log(p / (1 - p)) of each class, in float64, equal ones for equal p.

    The zeros of the p were lifted to `zero`, and those of 1 - p are here. A small 1 - p
    is the sum of the others, as the difference may be below the precision.
    """
    log_proba = np.asarray(log_proba, dtype=np.float64)
    proba = np.exp(log_proba)
    rows, top = np.arange(len(proba)), proba.argmax(axis=1)
    others = np.minimum(proba, np.maximum(2 * (proba - zero), 0))
    others[rows, top] = 0
    rest = 1 - proba
    largest = rest[rows, top]
    rest[rows, top] = np.where(largest > 1e-3, largest, others.sum(axis=1))
    return log_proba - np.log(lift_zeros(rest, zero))


def log_odds(logits: Floats) -> Floats:
    """Return log(p / (1 - p)) of each class, in float64.

    From logits and not from p, which is 1 where 1 - p is below the precision.
    """
    log_proba = log_softmax(np.asarray(logits, dtype=np.float64))
    rows, top = np.arange(len(logits)), log_proba.argmax(axis=1)
    others = log_proba.copy()
    others[rows, top] = -np.inf
    log_rest = np.zeros_like(log_proba)
    np.log1p(-np.exp(others), out=log_rest)
    log_rest[rows, top] = logsumexp(others, axis=1)
    return log_proba - log_rest
