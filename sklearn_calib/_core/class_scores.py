"""Scores of some classes in float64, from their columns and a summary of each row.

The summaries of all rows are computed once. The scores of a class then need no other
column, and do not depend on which other classes are computed with it.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import numpy as np

from sklearn_calib._core.links import (
    Summary,
    columns_log_odds,
    columns_softmax,
    proba_columns_log_odds,
    summarise_log_odds,
    summarise_proba,
    summarise_softmax,
)
from sklearn_calib._core.typing import Floats

# At least this many classes are read at once, as the values of one row are next to each
# other in memory.
GROUP_SIZE = 8


class ClassScores(NamedTuple):
    """A score, as a function of columns and of row summaries.

    `summarise(rows)` takes rows of all classes. `score(columns, first, *summary)` takes
    consecutive columns from the column `first`, and returns a new array of their shape.
    """

    summarise: Callable[[Floats], Summary]
    score: Callable[..., Floats]

    def of_all(self, rows: Floats) -> Floats:
        """Return the scores of all classes, (n_classes, n_samples)."""
        rows = rows.astype(np.float64, copy=False)
        return np.ascontiguousarray(self.score(rows, 0, *self.summarise(rows)).T)

    def summarise_all(self, blocks: Iterable[Floats]) -> Summary:
        """Return the summary of all rows, given in blocks."""
        parts = [self.summarise(rows.astype(np.float64, copy=False)) for rows in blocks]
        return tuple(map(np.concatenate, zip(*parts, strict=True)))

    def of_classes(
        self, blocks: Iterable[Floats], summary: Summary, classes: slice, n_samples: int
    ) -> Floats:
        """Return the scores of consecutive classes, (n_classes, n_samples).

        `blocks` contain all rows, in the order of the summary.
        """
        scores = np.empty((classes.stop - classes.start, n_samples))
        start = 0
        for rows in blocks:
            part = slice(start, start := start + len(rows))
            columns = rows[:, classes].astype(np.float64, order="F")
            known = (values[part] for values in summary)
            scores[:, part] = self.score(columns, classes.start, *known).T
        return scores


def log_odds_from_proba(zero: float) -> ClassScores:
    """Return the log-odds as a function of log p, see `links.log_odds_of_proba`."""
    return ClassScores(
        partial(summarise_proba, zero=zero), partial(proba_columns_log_odds, zero=zero)
    )


SOFTMAX = ClassScores(summarise_softmax, columns_softmax)
# The probabilities are not normalised, as rounding errors would make equal ones differ.
EXPONENTIAL = ClassScores(lambda _: (), lambda log_proba, _: np.exp(log_proba))
LOG_ODDS = ClassScores(summarise_log_odds, columns_log_odds)
