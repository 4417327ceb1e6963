"""The difference of two calibration errors, estimated from halves of the samples."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sklearn_calib._core.binning import class_gap_norm, sweep_n_bins
from sklearn_calib._core.inputs import check_targets, resolve_mode
from sklearn_calib._core.interval_kind import interval_kind
from sklearn_calib._core.typing import Array, Bools, Floats, Ints, Metric
from sklearn_calib.metrics._bin_noise import bin_cells, cell_sums, judged
from sklearn_calib.metrics._resampling import Sample, name_the_classes

# The share of a half in the two mixtures that tell the slope of an error. Weights of
# metrics are not negative; those of bins may be, so that gaps of zero have no slope.
STEP = 1e-3
# The estimate is the mean over so many splits.
N_SPLITS = 20
SHARES, SHARES_OF_BINS = (STEP, 2 * STEP), (-STEP, STEP)


class BinnedError(NamedTuple):
    """A calibration error of bins that stay where they are."""

    deviation: Floats  # (n_samples, n_columns)
    cells: Ints
    mass: Floats  # (n_columns, n_bins)
    norm: str
    average: str

    def measure(self, *, weight: Floats) -> Any:
        """Return the error for weights with the sum 1, which may be negative."""
        gap = cell_sums(self.cells, weight[:, None] * self.deviation, self.mass.shape)
        return class_gap_norm(self.mass, gap, self.norm, self.average)


# What returns an error of weights with the sum 1.
Error: TypeAlias = BinnedError | Sample


class SplitErrors(NamedTuple):
    """Errors of two models, with the signs of gaps from one half of the samples."""

    a: Error
    b: Error
    weight: Floats
    shares: tuple[float, float]

    def measure(self, *, weight: Floats, is_first: Bools) -> Any:
        """Return the difference, averaged over which half it is."""
        halves = [np.where(half, weight, 0) for half in (is_first, ~is_first)]
        if not all(half.any() for half in halves):
            return np.nan
        one, other = (half / half.sum() for half in halves)
        pairs = (one, other), (other, one)
        return np.mean(
            [self._value(self.a, *p) - self._value(self.b, *p) for p in pairs]
        )

    def split(self, seed: int) -> dict[str, Array]:
        """Split the samples at random."""
        return {"weight": self.weight, "is_first": self._halve(seed)}

    def draw(self, seed: int) -> dict[str, Array]:
        """Draw samples with replacement, and split them."""
        rng = np.random.default_rng(seed)
        n_samples = len(self.weight)
        times = np.bincount(rng.integers(n_samples, size=n_samples), None, n_samples)
        return {"weight": self.weight * times, "is_first": self._halve(rng)}

    def _halve(self, seed: Any) -> Bools:
        order = np.random.default_rng(seed).permutation(len(self.weight))
        return order < len(order) / 2

    def _value(self, error: Error, known: Floats, new: Floats) -> Any:
        """Return the error of the new half with the signs of the known half.

        It is linear where these do not change, so the line is found by two mixtures of
        little from the new half.
        """
        first, second = (
            error.measure(weight=(1 - share) * known + share * new)
            for share in self.shares
        )
        slope = (second - first) / (self.shares[1] - self.shares[0])
        return first + (1 - self.shares[0]) * slope


def split_errors(a: Sample, b: Sample) -> SplitErrors:
    """Return the errors of two models on the same samples."""
    if len(a.weight) < 2:
        raise ValueError(
            "y_true must hold at least two samples to test a calibration error, got "
            f"{len(a.weight)}. Pass more samples."
        )
    if interval_kind(a.metric)[0].bins is not None:
        return SplitErrors(_binned(a), _binned(b), a.weight, SHARES_OF_BINS)
    return SplitErrors(name_the_classes(a), name_the_classes(b), a.weight, SHARES)


def check_has_test(metric: Metric) -> None:
    """Refuse errors for which no test of their difference is known to be valid."""
    kind, given = interval_kind(metric)
    if not kind.is_error or kind.bins is not None:
        return
    changed = {**kind.squared, "reduce_bias": True}
    is_changed = any(given.get(name) == value for name, value in changed.items())
    if kind.is_supremum and not is_changed:
        return
    name = getattr(metric, "func", metric).__name__
    raise ValueError(
        "metric must be a mean over the samples, an error of bins of equal width or "
        "equal numbers, or another error with a valid test, such as "
        f"ks_calibration_error, got {name!r} with these options. Pass one of these, or "
        "compare the intervals that bootstrap_interval returns for both models."
    )


def _binned(sample: Sample) -> BinnedError:
    kind, given = interval_kind(sample.metric)
    defaults = {"n_bins": 15, "strategy": "uniform", "norm": "l1", "average": "mean"}
    given = {**defaults, **(kind.bins or {}), **given}
    weight = sample.weight / sample.weight.mean()
    proba, codes, _ = check_targets(
        sample.y_true, sample.y_proba, sample.options.get("labels"), None
    )
    values, hit = judged(proba, codes, resolve_mode(given.get("mode"), proba))
    n_bins, strategy = given["n_bins"], given["strategy"]
    if n_bins == "sweep":
        n_bins = sweep_n_bins(
            values[:, 0], hit[:, 0], strategy=strategy, sample_weight=weight
        )
    cells, shape = bin_cells(values, sample.weight, n_bins, strategy)
    mass = cell_sums(cells, weight[:, None] / weight.sum(), shape)
    return BinnedError(values - hit, cells, mass, given["norm"], given["average"])
