"""Conformity scores of classes, and their ranks among those of held-out samples."""

import numpy as np

from sklearn_calib._validation.types import Floats

DECIMALS = 12


def class_scores(
    proba: Floats, uniform: Floats, kind: str, lambd: float, k_reg: int
) -> Floats:
    """Return the score of each class of each sample, lower for more probable classes.

    Parameters
    ----------
    proba : ndarray of shape (n_samples, n_classes)
        Predicted probabilities.

    uniform : ndarray of shape (n_samples, 1 + n_classes)
        Draws from the uniform distribution on [0, 1), which "lac" does not use: the
        fraction of each sample, and the order of its classes with probability zero.

    kind : {"lac", "aps", "raps"}
        The score.

    lambd, k_reg : float and int
        Penalty of "raps" for each rank above `k_reg`.
    """
    proba = proba.astype(np.float64)
    if kind == "lac":
        # The order is that of 1 - p, which would be rounded to 1 for small p. The last
        # digits depend on how many samples are predicted together, and would break ties
        # with the held-out samples.
        with np.errstate(divide="ignore"):
            return np.round(-np.log(proba), DECIMALS)
    # Probabilities of zero would be ties within a sample and between samples.
    keys = np.where(proba > 0, -proba, uniform[:, 1:])
    order = np.argsort(keys, axis=1)
    keys = np.take_along_axis(keys, order, axis=1)
    # Other equal probabilities share their total and their last place, so that the
    # scores do not depend on the order of the classes.
    places = np.arange(proba.shape[1])
    is_first = np.diff(keys, axis=1, prepend=-np.inf) > 0
    is_last = np.diff(keys, axis=1, append=np.inf) > 0
    first = np.maximum.accumulate(np.where(is_first, places, 0), axis=1)
    last = np.where(is_last, places, len(places))[:, ::-1]
    last = np.minimum.accumulate(last, axis=1)[:, ::-1]
    # The total of the less probable classes is subtracted, because that of the more
    # probable ones is rounded to 1 for all small probabilities.
    ascending = np.maximum(-keys[:, ::-1], 0)
    rest = np.cumsum(np.insert(ascending, 0, 0, axis=1), axis=1)[:, ::-1]
    below = np.take_along_axis(rest, last + 1, axis=1)
    tied = np.take_along_axis(rest, first, axis=1) - below
    values = np.maximum(keys, 0) - below - (1 - uniform[:, :1]) * tied
    if kind == "raps":
        values += lambd * np.maximum(last + 1 - k_reg, 0)
    scores = np.empty_like(values)
    np.put_along_axis(scores, order, values, axis=1)
    return scores


def tabulate(scores: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Return sorted scores, and the total weight before each of them and after all."""
    order = np.argsort(scores)
    return scores[order], np.append(0.0, np.cumsum(weight[order]))


def weight_below(table: tuple[Floats, Floats], scores: Floats) -> Floats:
    """Return the total weight of the tabulated scores that are less than each score."""
    known, total = table
    return total[np.searchsorted(known, scores)]
