"""Bounds of calibration errors, by gaps of some samples and their signs of others."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sklearn_calib._core.binning import class_gap_norm
from sklearn_calib._core.inputs import check_targets, resolve_mode
from sklearn_calib._core.interval_kind import interval_kind
from sklearn_calib._core.typing import Array, Floats, Ints, Metric
from sklearn_calib.metrics._bin_noise import bin_cells, cell_sums, judged
from sklearn_calib.metrics._resampling import Sample

N_FOLDS = 5
# The step of a numerical derivative.
STEP = 1e-6
BINS = {"n_bins": 15, "strategy": "uniform", "norm": "l1", "average": "mean"}


class GapError(NamedTuple):
    """A calibration error, which is a norm of the gaps of bins that labels do not move.

    The Kolmogorov-Smirnov error is the largest of the cumulated gaps of the values.
    """

    deviation: Floats  # (n_samples, n_columns)
    cells: Ints
    shape: tuple[int, int]
    norm: str
    average: str
    is_cumulated: bool

    def upper(self, weight: Floats) -> Any:
        """Return the error, which is too large on average, as a norm is convex."""
        return self._norm(weight, self._gap(weight, 0).sum(axis=0))

    def lower(self, weight: Floats, fold: Ints) -> Any:
        """Return an estimate of the error that is too small on average.

        It is the mean of the gaps with their signs in the other folds, or for other
        norms with the derivative of the norm. Such a weight with dual norm 1 brings at
        most the error, and does if the others show where the gaps are.
        """
        gap = self._gap(weight, fold)
        others = gap.sum(axis=0) - gap
        # Both ways, so that gaps of zero have no sign.
        ends = np.stack([others - STEP * gap, others + STEP * gap])
        return np.diff(self._norm(weight, ends), axis=0).sum() / (2 * STEP)

    def _gap(self, weight: Floats, fold: Any) -> Floats:
        """Return the sums of the deviations in each fold, column and bin."""
        cells = self.cells + np.prod(self.shape) * np.reshape(fold, (-1, 1))
        shape = N_FOLDS, *self.shape
        gap = cell_sums(cells, weight[:, None] * self.deviation, shape)
        return gap.cumsum(axis=-1) if self.is_cumulated else gap

    def _norm(self, weight: Floats, gap: Floats) -> Any:
        mass = cell_sums(self.cells, weight[:, None], self.shape)
        if self.is_cumulated:
            mass[:] = mass.sum()
        return class_gap_norm(mass, gap, self.norm, self.average)


class ErrorExcess(NamedTuple):
    """By how much one model's error at least exceeds that of another, on average."""

    larger: GapError
    smaller: GapError
    weight: Floats

    def measure(self, *, weight: Floats, fold: Ints) -> Any:
        """Return the lower bound of one error minus the upper bound of the other."""
        if not weight.any():
            return np.nan
        return self.larger.lower(weight, fold) - self.smaller.upper(weight)

    def split(self, seed: int) -> dict[str, Array]:
        """Deal the samples to folds."""
        rng = np.random.default_rng(seed)
        fold = rng.integers(N_FOLDS, size=len(self.weight))
        return {"weight": self.weight, "fold": fold}

    def draw(self, seed: int) -> dict[str, Array]:
        """Draw samples with replacement, and deal them to folds."""
        rng = np.random.default_rng(seed)
        n_samples = len(self.weight)
        times = np.bincount(rng.integers(n_samples, size=n_samples), None, n_samples)
        fold = rng.integers(N_FOLDS, size=n_samples)
        return {"weight": self.weight * times, "fold": fold}


def has_bounds(metric: Metric) -> bool:
    """Whether the metric is a calibration error that `gap_error` measures."""
    kind, given = interval_kind(metric)
    is_binned = kind.bins is not None and given.get("n_bins") != "sweep"
    return kind.is_error and (is_binned or kind.is_cumulated)


def gap_error(sample: Sample) -> GapError:
    """Return what measures the error of a model for other weights."""
    kind, given = interval_kind(sample.metric)
    given = {**BINS, **(kind.bins or {}), **given}
    labels = sample.options.get("labels")
    proba, codes, _ = check_targets(sample.y_true, sample.y_proba, labels, None)
    values, hit = judged(proba, codes, resolve_mode(given.get("mode"), proba))
    if kind.is_cumulated:
        distinct, ranks = np.unique(values, return_inverse=True)
        cells, shape = ranks.reshape(-1, 1), (1, len(distinct))
        given["norm"] = "max"
    else:
        cells, shape = bin_cells(
            values, sample.weight, given["n_bins"], given["strategy"]
        )
    return GapError(
        values - hit, cells, shape, given["norm"], given["average"], kind.is_cumulated
    )
