"""Link functions: from logits to probabilities, and from there to class posteriors.

A network that minimises the expected loss for true class probabilities eta predicts
probabilities q. For proper losses, q = eta. For others, such as focal losses, the
functions here compute eta from q and the parameters of the loss. They preserve the
order of the classes, 0 and 1, and the dtype.
"""

import math
from typing import TypeAlias

import numpy as np
from scipy.special import logsumexp, xlog1py, xlogy

from sklearn_calib._validation.types import Array, Floats, Ints

# Arrays of shape (n_samples,), such as the largest value of each row.
Summary: TypeAlias = tuple[Array, ...]

# Smaller sums of exponentials may contain subnormal numbers, which are not precise.
UNDERFLOW = 1e-280

# Makes subnormal numbers normal.
SCALE = 2.0**60


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
    ratio = -np.where(is_large, xlog1py(proba, -rest), xlogy(proba, proba)) / rest
    return log_q, np.log(rest), ratio


def _normalize(proba: Floats) -> Floats:
    """Return rows that sum to one in full precision."""
    return proba / proba.sum(axis=1, keepdims=True)


def _log(proba: Floats) -> Floats:
    """Return logarithms; minus infinity for 0."""
    return np.log(proba, where=proba > 0, out=np.full_like(proba, -np.inf))


def lift_zeros(proba: Floats, zero: float) -> Floats:
    """Raise probabilities to at least `zero`, preserving their order.

    Probabilities from `2 * zero` are not changed.
    """
    lifted = proba / 2
    lifted += zero
    return np.maximum(proba, lifted, out=lifted)


def log_odds_of_proba(log_proba: Floats, zero: float) -> Floats:
    """Return the log-odds log(p / (1 - p)) of each class, in float64.

    Zeros of p have already been replaced by `zero`; zeros of 1 - p are replaced here. A
    small 1 - p is computed as the sum of the other probabilities, to avoid
    cancellation. Equal p have equal log-odds.
    """
    log_proba = np.asarray(log_proba, dtype=np.float64)
    summary = summarise_proba(log_proba, zero=zero)
    return proba_columns_log_odds(log_proba, 0, *summary, zero=zero)


def log_odds_of_one(proba: Floats) -> Floats:
    """Return the log-odds of the probabilities (n_samples,) of a class, in float64.

    If there are probabilities of 0 or 1, a zero of p or of 1 - p is replaced by half of
    the smallest of the others, which is at most 1/2, as in calibrators.
    """
    both = np.stack([proba, 1 - proba.astype(np.float64)])
    zero = np.finfo(np.float64).eps
    if both.min() == 0:
        zero = max(both.min(where=both > 0, initial=1 / 2) / 2, zero)
    positive, negative = np.log(lift_zeros(both, zero))
    return positive - negative


def log_odds(logits: Floats) -> Floats:
    """Return the log-odds log(p / (1 - p)) of each class from logits, in float64.

    They are not computed from p, as p is rounded to 1 where 1 - p is small.
    """
    log_proba, log_rest = log_proba_and_rest(logits)
    return np.subtract(log_proba, log_rest, out=log_proba)


def log_proba_and_rest(logits: Floats) -> tuple[Floats, Floats]:
    """Return log(p) and log(1 - p) of each class from logits, in float64."""
    logits = np.asarray(logits, dtype=np.float64)
    return _log_terms(logits, 0, *summarise_log_odds(logits))


def summarise_softmax(logits: Floats) -> Summary:
    """Return the largest logit of each row, and the sum of exp(logit - largest)."""
    largest = logits.max(axis=1)
    shifted = logits - largest[:, None]
    return largest, np.exp(shifted, out=shifted).sum(axis=1)


def columns_softmax(logits: Floats, _: int, largest: Floats, total: Floats) -> Floats:
    """Return columns of the softmax, given the summary of each row."""
    proba = logits - largest[:, None]
    np.exp(proba, out=proba)
    proba /= total[:, None]
    return proba


def summarise_log_odds(logits: Floats) -> Summary:
    """Return what log p needs of each row, the predicted class, and its log(1 - p)."""
    every, top = np.arange(len(logits)), logits.argmax(axis=1)
    largest = logits[every, top]
    others = np.exp(logits - largest[:, None])
    log_total = np.log(others.sum(axis=1))
    others[every, top] = 0
    rest = others.sum(axis=1)
    log_rest = np.log(np.maximum(rest, UNDERFLOW)) - log_total
    # The exponentials of logits that are far below the largest underflow.
    rows = np.flatnonzero(rest < UNDERFLOW)
    others[rows] = logits[rows] - largest[rows, None]
    others[rows, top[rows]] = -np.inf
    log_rest[rows] = logsumexp(others[rows], axis=1)
    return largest, log_total, top, log_rest


def columns_log_odds(logits: Floats, first: int, *summary: Array) -> Floats:
    """Return the log-odds of columns from `first`, given the summary of each row."""
    terms = _log_terms(logits, first, *summary)
    return np.subtract(*terms, out=terms[0])


def _log_terms(
    logits: Floats,
    first: int,
    largest: Floats,
    log_total: Floats,
    top: Ints,
    top_log_rest: Floats,
) -> tuple[Floats, Floats]:
    """Return log(p) and log(1 - p) of columns, given the summary of each row."""
    log_proba = logits - largest[:, None]
    log_proba -= log_total[:, None]
    rows, columns = _predicted(top, first, logits.shape[1])
    log_rest = log_proba.copy()
    log_rest[rows, columns] = -np.inf
    np.negative(np.exp(log_rest, out=log_rest), out=log_rest)
    np.log1p(log_rest, out=log_rest)
    log_rest[rows, columns] = top_log_rest[rows]
    return log_proba, log_rest


def summarise_proba(log_proba: Floats, *, zero: float) -> Summary:
    """Return the predicted class of each row, and its 1 - p."""
    proba = np.exp(log_proba)
    every, top = np.arange(len(proba)), proba.argmax(axis=1)
    rest = 1 - proba[every, top]
    others = np.minimum(proba, np.maximum(2 * (proba - zero), 0))
    others[every, top] = 0
    return top, np.where(rest > 1e-3, rest, others.sum(axis=1))


def proba_columns_log_odds(
    log_proba: Floats, first: int, top: Ints, top_rest: Floats, *, zero: float
) -> Floats:
    """Return the log-odds of columns from `first`, given the summary of each row."""
    rest = 1 - np.exp(log_proba)
    rows, columns = _predicted(top, first, log_proba.shape[1])
    rest[rows, columns] = top_rest[rows]
    rest = lift_zeros(rest, zero)
    return np.subtract(log_proba, np.log(rest, out=rest), out=rest)


def _predicted(top: Ints, first: int, n_columns: int) -> tuple[Ints, Ints]:
    """Return the rows whose predicted class is among the columns, and its column."""
    columns = top - first
    rows = np.flatnonzero((columns >= 0) & (columns < n_columns))
    return rows, columns[rows]


def interpolate(values: Floats, points: tuple[Floats, Floats]) -> Floats:
    """Return `np.interp` for points that may be subnormal numbers.

    The slope between them would overflow. Multiplying by a power of two is exact.
    """
    x, y = points
    return np.interp(SCALE * values, SCALE * x, y)
