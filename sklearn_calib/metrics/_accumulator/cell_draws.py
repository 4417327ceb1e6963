"""Bootstrap of the cells of an accumulator."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from sklearn_calib._validation.declarations import interval_kind
from sklearn_calib._validation.types import Floats, Ints, Metric, Options, Seed
from sklearn_calib.metrics._accumulator.cell_metrics import evaluate
from sklearn_calib.metrics._binned_sums.grid import Cells, Grid
from sklearn_calib.metrics._draws import (
    JACKKNIFE_PARTS,
    check_number,
    measure_draws,
)
from sklearn_calib.metrics._intervals.bootstrap import (
    draw_seeds,
    interval_of_draws,
    resolve_method,
)

rng_of = np.random.default_rng


class CellSample(NamedTuple):
    """A metric and its cells, for `measure_draws`."""

    cells: Cells
    grid: Grid
    metric: Metric
    mode: str
    options: Options

    def measure(self, weight: Floats | None = None) -> float:
        """Return the metric, optionally for other weights of both outcomes."""
        cells = self.cells
        if weight is not None:
            correct, total = weight[0], weight.sum(axis=0)
            seen = total > 0
            gap = total * self._mean() - correct
            cells = Cells(cells.place[seen], np.array([total, gap, correct])[:, seen])
        return check_number(
            evaluate(cells, self.grid, 1, self.metric, self.mode, self.options)
        )

    def interval(
        self,
        confidence_level: float,
        method: str,
        n_resamples: int,
        random_state: Seed,
    ) -> tuple[float, float]:
        """Return the confidence interval of the metric."""
        bound_options = partial(self.metric, **self.options)
        method = resolve_method(method, interval_kind(bound_options)[0])
        rng = check_random_state(random_state)
        seeds = draw_seeds(rng, n_resamples)

        counts, unit = self._counts()

        def measure(draw: Callable[[Any], Floats], seeds: Ints = seeds) -> Floats:
            return measure_draws(
                self, lambda seed: {"weight": draw(seed)}, seeds, n_jobs=None, verbose=0
            )

        def jackknife() -> Floats:
            parts = np.full(JACKKNIFE_PARTS, 1 / JACKKNIFE_PARTS)
            drawn = rng_of(seeds[0]).multinomial(np.rint(counts).astype(int), parts)
            return measure(
                lambda part: unit * np.maximum(0, counts - drawn[..., part]),
                np.arange(JACKKNIFE_PARTS),
            )

        def halves() -> Floats:
            whole = np.rint(counts).astype(int)
            return measure(lambda seed: unit * rng_of(seed).binomial(whole, 0.5))

        def null() -> Floats:
            weight, squares = self.cells.with_squares()[[0, 3]]
            of_both = weight_of_one(weight, squares)
            n_samples = np.rint(weight / of_both).astype(int)
            mean = np.clip(self._mean(), 0, 1)

            def draw(seed: int) -> Floats:
                correct = rng_of(seed).binomial(n_samples, mean)
                return of_both * np.array([correct, n_samples - correct])

            return measure(draw)

        return interval_of_draws(
            bound_options,
            self.measure(),
            method,
            (1 - confidence_level) / 2,
            draws=lambda: measure(lambda seed: unit * rng_of(seed).poisson(counts)),
            jackknife=jackknife,
            halves=halves,
            null=null,
        )

    def _mean(self) -> Floats:
        """Return the mean confidence of each cell."""
        weight, gap, correct = self.cells.sums[:3]
        return (gap + correct) / weight

    def _counts(self) -> tuple[Floats, Floats]:
        """Return numbers of correct and wrong samples, and the weight of one sample.

        The weights of a cell are represented by equal ones with the same sum and sum of
        squares.
        """
        weight, _, correct, squares, of_correct = self.cells.with_squares()
        both = np.maximum(0, [correct, weight - correct])
        of_both = np.maximum(0, [of_correct, squares - of_correct])
        unit = weight_of_one(both, of_both)
        return both / unit, unit


def weight_of_one(weight: Floats, squares: Floats) -> Floats:
    """Return the weight of equal samples with these sums, or 1 for squares of zero.

    The squares of very small weights are zero, too.
    """
    unit = np.divide(squares, weight, where=weight > 0, out=np.ones_like(weight))
    return np.where(unit > 0, unit, 1.0)
