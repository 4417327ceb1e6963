"""Bootstrap of the cells of an accumulator."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sklearn_calib._validation.types import Array, Floats, Ints, Metric, Options
from sklearn_calib.metrics._accumulator.cell_metrics import metric_of_cells
from sklearn_calib.metrics._binned_sums.grid import Cells, Grid
from sklearn_calib.metrics._draws import (
    JACKKNIFE_PARTS,
    Draw,
    Resample,
    check_number,
)

rng_of = np.random.default_rng


@dataclass(frozen=True, eq=False)
class CellSample(Resample):
    """A metric and its cells, whose numbers of samples are drawn."""

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
            gap = total * self._mean - correct
            cells = Cells(cells.place[seen], np.array([total, gap, correct])[:, seen])
        return check_number(
            metric_of_cells(cells, self.grid, 1, self.metric, self.mode, self.options)
        )

    def draw_all(self, seed: int) -> dict[str, Array]:
        counts, scale = self._counts
        return {"weight": scale * rng_of(seed).poisson(counts)}

    def draw_half(self, seed: int) -> dict[str, Array]:
        counts, scale = self._counts
        return {"weight": scale * rng_of(seed).binomial(whole(counts), 0.5)}

    def draw_calibrated(self, seed: int) -> dict[str, Array]:
        n_samples, chance, scale = self._calibrated
        correct = rng_of(seed).binomial(n_samples, chance)
        return {"weight": scale * np.array([correct, n_samples - correct])}

    def leave_out(self, _: np.random.RandomState, seed: int) -> tuple[Draw, int]:
        counts, scale = self._counts
        parts = np.full(JACKKNIFE_PARTS, 1 / JACKKNIFE_PARTS)
        drawn = rng_of(seed).multinomial(whole(counts), parts)

        def leave_out(part: int) -> dict[str, Array]:
            return {"weight": scale * np.maximum(0, counts - drawn[..., part])}

        return leave_out, JACKKNIFE_PARTS

    @cached_property
    def _calibrated(self) -> tuple[Ints, Floats, Floats]:
        """Return the numbers of samples, the confidences and the weight of a sample."""
        weight, squares = self.cells.with_squares()[[0, 3]]
        scale = weight_of_one(weight, squares)
        return whole(weight / scale), np.clip(self._mean, 0, 1), scale

    @cached_property
    def _mean(self) -> Floats:
        """Return the mean confidence of each cell."""
        weight, gap, correct = self.cells.sums[:3]
        return (gap + correct) / weight

    @cached_property
    def _counts(self) -> tuple[Floats, Floats]:
        """Return numbers of correct and wrong samples, and the weight of one sample.

        The weights of a cell are represented by equal ones with the same sum and sum of
        squares.
        """
        weight, _, correct, squares, of_correct = self.cells.with_squares()
        both = np.maximum(0, [correct, weight - correct])
        of_both = np.maximum(0, [of_correct, squares - of_correct])
        scale = weight_of_one(both, of_both)
        return both / scale, scale


def whole(counts: Floats) -> Ints:
    """Return whole numbers of samples."""
    return np.rint(counts).astype(int)


def weight_of_one(weight: Floats, squares: Floats) -> Floats:
    """Return the weight of equal samples with these sums, or 1 for squares of zero.

    The squares of very small weights are zero, too.
    """
    scale = np.divide(squares, weight, where=weight > 0, out=np.ones_like(weight))
    return np.where(scale > 0, scale, 1.0)
