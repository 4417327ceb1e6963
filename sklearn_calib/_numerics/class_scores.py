"""Log-odds of some classes in float64, from their columns and a summary of each row.

The summaries of all rows are computed once. The scores of a class then need no other
column, and do not depend on which other classes are computed with it.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.special import logsumexp

from sklearn_calib._numerics.sample_blocks import Blocks
from sklearn_calib._numerics.softmax import UNDERFLOW, lift_zeros
from sklearn_calib._validation.types import Array, Floats, Ints

# At least this many classes are read at once, as the values of one row are next to each
# other in memory.
GROUP_SIZE = 8

# Arrays of shape (n_samples,), such as the largest value of each row.
Summary: TypeAlias = tuple[Array, ...]


class ClassScores(NamedTuple):
    """A score, as a function of columns and of row summaries.

    `summarise(rows)` takes rows of all classes; None if no summary is needed.
    `score(columns, first, *summary)` takes consecutive columns from the column `first`,
    and returns a new array of their shape.
    """

    summarise: Callable[[Floats], Summary] | None
    score: Callable[..., Floats]

    def of_all(self, rows: Floats) -> Floats:
        """Return the scores of all classes, (n_classes, n_samples)."""
        rows = rows.astype(np.float64, copy=False)
        return np.ascontiguousarray(self.score(rows, 0, *self.summarise_block(rows)).T)

    def summarise_block(self, values: Floats) -> Summary:
        """Return the summary of the rows of a block."""
        if self.summarise is None:
            return ()
        return self.summarise(values.astype(np.float64, copy=False))

    def of_classes(
        self, data: Blocks, summary: Iterable[Array], classes: slice
    ) -> Floats:
        """Return the scores of consecutive classes, (n_classes, n_samples).

        `summary` is that of all rows.
        """
        scores = np.empty((classes.stop - classes.start, data.n_samples))
        start = 0
        for columns in data.columns(classes):
            part = slice(start, start := start + len(columns))
            columns = columns.astype(np.float64, copy=False)
            known = (each[part] for each in summary)
            scores[:, part] = self.score(columns, classes.start, *known).T
        return scores


def log_odds_from_proba(zero: float) -> ClassScores:
    """Return the log-odds as a function of log p, without zeros of p.

    Zeros of 1 - p are replaced. A small 1 - p is computed as the sum of the other
    probabilities, to avoid cancellation. Equal p have equal log-odds.
    """
    return ClassScores(
        partial(summarise_proba, zero=zero), partial(proba_columns_log_odds, zero=zero)
    )


# The probabilities are not normalised, as rounding errors would make equal ones differ.
EXPONENTIAL = ClassScores(None, lambda log_proba, _: np.exp(log_proba))


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


def log_proba_and_rest(logits: Floats) -> tuple[Floats, Floats]:
    """Return log(p) and log(1 - p) of each class from logits, in float64.

    They are not computed from p, as p is rounded to 1 where 1 - p is small.
    """
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


SOFTMAX = ClassScores(summarise_softmax, columns_softmax)


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
    if len(rows):
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


LOG_ODDS = ClassScores(summarise_log_odds, columns_log_odds)
