"""Bootstrap of the cells of an accumulator."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from sklearn_calib._core.interval_kind import interval_kind
from sklearn_calib._core.typing import Array, Floats, Ints, Metric, Options, Seed
from sklearn_calib.metrics._accumulator_cells import Cells, Grid
from sklearn_calib.metrics._accumulator_metrics import evaluate
from sklearn_calib.metrics._bootstrap import (
    draw_seeds,
    interval_of_draws,
    resolve_method,
)
from sklearn_calib.metrics._resampling import (
    JACKKNIFE_PARTS,
    Draw,
    check_number,
    measure_draws,
)


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

        def measure(draw: Draw, seeds: Ints = seeds) -> Floats:
            return measure_draws(self, draw, seeds, n_jobs=None, verbose=0)

        def jackknife() -> Floats:
            leave_out = self._jackknife(np.random.default_rng(seeds[0]))
            return measure(leave_out, np.arange(JACKKNIFE_PARTS))

        return interval_of_draws(
            bound_options,
            self.measure(),
            method,
            (1 - confidence_level) / 2,
            draws=lambda: measure(self._draw_all),
            jackknife=jackknife,
            halves=lambda: measure(self._draw_half),
            null=lambda: measure(self._draw_calibrated),
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
        unit = np.divide(of_both, both, where=both > 0, out=np.ones_like(both))
        unit = np.where(unit > 0, unit, 1.0)
        return both / unit, unit

    def _draw_all(self, seed: int) -> dict[str, Array]:
        """Draw samples with replacement."""
        counts, unit = self._counts()
        return {"weight": unit * np.random.default_rng(seed).poisson(counts)}

    def _draw_half(self, seed: int) -> dict[str, Array]:
        """Draw half of the samples."""
        counts, unit = self._counts()
        drawn = np.random.default_rng(seed).binomial(np.rint(counts).astype(int), 0.5)
        return {"weight": unit * drawn}

    def _draw_calibrated(self, seed: int) -> dict[str, Array]:
        """Draw labels from the probabilities."""
        weight, squares = self.cells.with_squares()[[0, 3]]
        unit = squares / weight
        n_samples = np.rint(weight / unit).astype(int)
        mean = np.clip(self._mean(), 0, 1)
        correct = np.random.default_rng(seed).binomial(n_samples, mean)
        return {"weight": unit * np.array([correct, n_samples - correct])}

    def _jackknife(self, rng: np.random.Generator) -> Draw:
        """Return a function that leaves out one of 100 random parts of the samples."""
        counts, unit = self._counts()
        parts = np.full(JACKKNIFE_PARTS, 1 / JACKKNIFE_PARTS)
        drawn = rng.multinomial(np.rint(counts).astype(int), parts)

        def leave_out(part: int) -> dict[str, Array]:
            return {"weight": unit * np.maximum(0, counts - drawn[..., part])}

        return leave_out
