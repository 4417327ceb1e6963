"""Bounds on calibration errors by cross-fitting: gaps in one fold, signs in others."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sklearn_calib._numerics.binning import class_gap_norm
from sklearn_calib._validation.declarations import interval_kind
from sklearn_calib._validation.samples import read_samples
from sklearn_calib._validation.types import Array, Floats, Ints, Metric
from sklearn_calib.metrics._draws import RowSample
from sklearn_calib.metrics._intervals.bin_noise import bin_cells, cell_sums, evaluated

N_FOLDS = 5
# Step of the numerical derivative.
STEP = 1e-6
# Limits of the number of groups whose influences are computed. It is lower if there
# are many bins.
FEWEST, MOST, GROUP_SUMS = 20, 200, 2**22
BINS = {"n_bins": 15, "strategy": "uniform", "norm": "l1", "average": "mean"}


class GapError(NamedTuple):
    """A calibration error that is a norm of gaps of bins independent of the labels.

    The Kolmogorov-Smirnov error is the largest cumulative gap over distinct values.
    """

    deviation: Floats  # (n_samples, n_columns)
    cells: Ints
    shape: tuple[int, int]
    norm: str
    average: str
    is_cumulated: bool

    def upper(self, weight: Floats) -> Any:
        """Return the error, which is biased upward because a norm is convex."""
        return self._norm(*self._sums(weight, np.zeros(len(weight), dtype=int))).sum()

    def lower(self, weight: Floats, fold: Ints) -> Any:
        """Return an estimate of the error that is biased downward.

        It is the mean of the gaps in a fold, multiplied by their signs in the other
        folds, or for other norms by the derivative of the norm in the other folds. The
        dual norm of this derivative is 1, so the mean is at most the error.
        """
        mass, gap = self._sums(weight, fold)
        return self._slopes(mass.sum(axis=0), gap.sum(axis=0) - gap, 0, gap).sum()

    def influences(self, weight: Floats, group: Ints) -> Any:
        """Return the derivatives of the error by the weights of the groups."""
        mass, gap = self._sums(weight, group)
        return self._slopes(mass.sum(axis=0), gap.sum(axis=0), mass, gap)

    def _sums(self, weight: Floats, group: Ints) -> tuple[Floats, Floats]:
        """Return the weights and the gaps of the bins of each column and group."""
        shape = group.max() + 1, *self.shape
        cells = self.cells + math.prod(self.shape) * group[:, None]
        mass, gap = (
            cell_sums(cells, weight[:, None] * summand, shape)
            for summand in (1, self.deviation)
        )
        if self.is_cumulated:
            mass[:] = mass.sum(axis=-1, keepdims=True)
            gap = gap.cumsum(axis=-1)
        return mass, gap

    def _slopes(
        self, mass: Floats, gap: Floats, more_mass: Any, more_gap: Floats
    ) -> Any:
        """Return the directional derivatives of the error."""
        # The difference is central, so that the sign of a gap of zero is zero.
        less, more = (
            self._norm(mass + step * more_mass, gap + step * more_gap)
            for step in (-STEP, STEP)
        )
        return (more - less) / (2 * STEP)

    def _norm(self, mass: Floats, gap: Floats) -> Any:
        """Return the errors for sums of shape (..., n_columns, n_bins)."""
        return class_gap_norm(mass, gap, self.norm, self.average)


class ErrorExcess(NamedTuple):
    """Lower bound on the difference of the errors of two models."""

    larger: GapError
    smaller: GapError
    weight: Floats
    sample: RowSample  # of one of the models, for its clusters

    def measure(self, *, fold: Ints) -> Any:
        """Return the lower bound of the larger error."""
        return self.larger.lower(self.weight, fold)

    def upper(self) -> Any:
        """Return the upper bound of the smaller error, which no fold changes."""
        return self.smaller.upper(self.weight)

    def split(self, seed: int) -> dict[str, Array]:
        """Assign the samples, or clusters, to random folds."""
        rng = np.random.default_rng(seed)
        fold = rng.integers(N_FOLDS, size=self.sample.n_units)
        return {"fold": self.sample.of_rows(fold)}

    def standard_error(self, rng: np.random.RandomState) -> Any:
        """Return the standard error of the difference, by infinitesimal jackknife."""
        n_units = self.sample.n_units
        n_groups = GROUP_SUMS // math.prod(self.larger.shape)
        n_groups = max(FEWEST, min(MOST, n_groups))
        group = rng.permutation(n_units) % min(n_units, n_groups)
        group = self.sample.of_rows(group)
        one, other = (e.influences(self.weight, group) for e in self[:2])
        return np.sqrt(((one - other) ** 2).sum())


def has_bounds(metric: Metric) -> bool:
    """Whether `as_gap_error` supports the metric."""
    kind, given = interval_kind(metric)
    is_binned = kind.bins is not None and given.get("n_bins") != "sweep"
    return kind.is_error and (is_binned or kind.is_cumulated)


def as_gap_error(sample: RowSample) -> GapError:
    """Return the `GapError` of a model."""
    kind, given = interval_kind(sample.metric)
    given = {**BINS, **(kind.bins or {}), **given}
    labels = sample.options.get("labels")
    mode = given.get("mode")
    data = sample.y_true, sample.y_proba, labels, None, mode, given.get("pos_label")
    samples = read_samples(*data, is_symmetric=mode == "classwise")
    values, correct, _ = evaluated(samples)
    if kind.is_cumulated:
        distinct = np.unique(values)
        cells: Ints = np.searchsorted(distinct, values)
        shape, given["norm"] = (1, len(distinct)), "max"
    else:
        cells, shape = bin_cells(
            values, sample.weight, given["n_bins"], given["strategy"]
        )
    return GapError(
        values - correct,
        cells,
        shape,
        given["norm"],
        given["average"],
        kind.is_cumulated,
    )
