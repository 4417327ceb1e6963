"""Scores of some classes in float64, from their columns and a summary of each row.

The summaries of all rows are computed once. The scores of a class then need no other
column, and do not depend on which other classes are computed with it.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import numpy as np

from sklearn_calib._numerics.sample_blocks import Blocks
from sklearn_calib._numerics.softmax import (
    Summary,
    columns_log_odds,
    columns_softmax,
    proba_columns_log_odds,
    summarise_log_odds,
    summarise_proba,
    summarise_softmax,
)
from sklearn_calib._validation.types import Array, Floats

# At least this many classes are read at once, as the values of one row are next to each
# other in memory.
GROUP_SIZE = 8


class ClassScores(NamedTuple):
    """A score, as a function of columns and of row summaries.

    `summarise(rows)` takes rows of all classes; None if no summary is needed.
    `score(columns, first, *summary)` takes consecutive columns from the column `first`,
    and returns a new array of their shape.
    Blocks contain values from which `prepare`, an elementwise function, computes logits
    in the dtype of the input.
    """

    summarise: Callable[[Floats], Summary] | None
    score: Callable[..., Floats]
    prepare: Callable[[Floats], Floats] = lambda values: values

    def of_all(self, rows: Floats) -> Floats:
        """Return the scores of all classes, (n_classes, n_samples)."""
        rows = rows.astype(np.float64, copy=False)
        return np.ascontiguousarray(self.score(rows, 0, *self.summarise_block(rows)).T)

    def summarise_block(self, values: Floats) -> Summary:
        """Return the summary of the rows of a block."""
        if self.summarise is None:
            return ()
        return self.summarise(self.prepare(values).astype(np.float64, copy=False))

    def of_classes(
        self, data: Blocks, summary: Iterable[Array], classes: slice
    ) -> Floats:
        """Return the scores of consecutive classes, (n_classes, n_samples).

        `summary` is that of all rows.
        """
        scores = np.empty((classes.stop - classes.start, data.n_samples))
        start = 0
        for values, *_ in data:
            part = slice(start, start := start + len(values))
            columns = self.prepare(np.asfortranarray(values[:, classes]))
            columns = columns.astype(np.float64, copy=False)
            known = (each[part] for each in summary)
            scores[:, part] = self.score(columns, classes.start, *known).T
        return scores


def log_odds_from_proba(zero: float) -> ClassScores:
    """Return the log-odds as a function of log p, see `links.log_odds_of_proba`."""
    return ClassScores(
        partial(summarise_proba, zero=zero), partial(proba_columns_log_odds, zero=zero)
    )


SOFTMAX = ClassScores(summarise_softmax, columns_softmax)
# The probabilities are not normalised, as rounding errors would make equal ones differ.
EXPONENTIAL = ClassScores(None, lambda log_proba, _: np.exp(log_proba))
LOG_ODDS = ClassScores(summarise_log_odds, columns_log_odds)
