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

    uniform : ndarray of shape (n_samples,)
        Draws from the uniform distribution on [0, 1], which "lac" does not use.

    kind : {"lac", "aps", "raps"}
        The score.

    lambd, k_reg : float and int
        Penalty of "raps" for each rank above `k_reg`.
    """
    proba = proba.astype(np.float64)
    if kind == "lac":
        # The last digits depend on how many samples are predicted together, and would
        # break ties with the held-out samples.
        return np.round(1 - proba, DECIMALS)
    order = np.argsort(-proba, axis=1)
    ranked = np.take_along_axis(proba, order, axis=1)
    # Equal probabilities share their total and their last place, so that the scores do
    # not depend on the order of the classes.
    places = np.arange(proba.shape[1])
    is_first = np.diff(ranked, axis=1, prepend=np.inf) < 0
    is_last = np.diff(ranked, axis=1, append=-np.inf) < 0
    first = np.maximum.accumulate(np.where(is_first, places, 0), axis=1)
    last = np.where(is_last, places, len(places))[:, ::-1]
    last = np.minimum.accumulate(last, axis=1)[:, ::-1]
    total = np.cumsum(np.insert(ranked, 0, 0, axis=1), axis=1)
    above = np.take_along_axis(total, first, axis=1)
    tied = np.take_along_axis(total, last + 1, axis=1) - above
    values = above + uniform[:, None] * tied
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
