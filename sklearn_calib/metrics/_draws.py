"""Resampling of samples or labels, and computation of a metric on each draw."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from inspect import signature
from typing import Any, TypeAlias

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.exceptions import UndefinedMetricWarning

from sklearn_calib._sklearn.metric_options import (
    accepts,
    as_number,
    fixed_by_partial,
    metric_input,
)
from sklearn_calib._sklearn.sample_values import is_equal, values_of_samples
from sklearn_calib._solvers.blas import one_blas_thread
from sklearn_calib._validation.arrays import as_numbers, shown
from sklearn_calib._validation.clusters import read_clusters
from sklearn_calib._validation.declarations import interval_kind
from sklearn_calib._validation.fit_warnings import without_warnings
from sklearn_calib._validation.labels import as_labels, encode_labels, is_multilabel
from sklearn_calib._validation.probabilities import (
    check_proba_shape,
    check_sample_weight,
)
from sklearn_calib._validation.samples import check_columns, join_labels, positive_code
from sklearn_calib._validation.types import (
    Array,
    Bools,
    Floats,
    Ints,
    Metric,
    Options,
    Weights,
)

# Largest number of blocks of draws if there are several jobs or progress is reported.
N_BLOCKS = 100
# Largest number of parts of the sample that the jackknife leaves out in turn.
JACKKNIFE_PARTS = 100
# Largest number of samples of a class that a draw may lack, and of these classes.
RARE = 20


# A function of a seed that returns what is drawn, as arguments of `measure`.
Draw: TypeAlias = Callable[[Any], dict[str, Array]]


class Resample(ABC):
    """A metric of a sample, and of what is drawn from this sample."""

    metric: Metric
    options: Options
    clusters: Ints | None = None  # of each row, if the rows are not independent

    @abstractmethod
    def measure(self, *args: Any, **drawn: Any) -> Any:
        """Return the metric of the sample, or of what was drawn."""

    @abstractmethod
    def draw_all(self, seed: int) -> dict[str, Array]:
        """Draw as many samples as there are, with replacement."""

    @abstractmethod
    def draw_half(self, seed: int) -> dict[str, Array]:
        """Draw half of the samples without replacement."""

    @abstractmethod
    def draw_calibrated(self, seed: int) -> dict[str, Array]:
        """Draw labels from the probabilities."""

    @abstractmethod
    def leave_out(self, rng: np.random.RandomState, seed: int) -> tuple[Draw, int]:
        """Return a function that leaves out a part, and the number of random parts."""


@dataclass(frozen=True, eq=False)
class RowSample(Resample):
    """A metric and its input, which is drawn row by row, or cluster by cluster."""

    metric: Metric
    y_true: Array
    y_proba: Array
    options: Options
    weight: Floats
    # Rows, or clusters, of each stratum, which is resampled separately.
    strata: Sequence[Ints]
    values: Array | None = None  # of each row, if the metric is known to be their mean
    labels: Any = None  # of the columns, also for a metric that does not take them
    clusters: Ints | None = None

    def measure(self, y_true: Array | None = None, weight: Weights = None) -> float:
        """Return the metric, optionally for other labels or weights."""
        if self.values is not None and y_true is None:
            weight = self.weight if weight is None else weight
            return float(np.average(self.values, weights=weight))
        if weight is None:
            weight = self.weight
        elif y_true is None and self._needs_absent(weight):
            return np.nan
        return self._measure(self.y_true if y_true is None else y_true, weight)

    def _measure(self, y_true: Array, weight: Floats) -> float:
        if self._takes_weights:
            options = {"sample_weight": weight, **self.options}
            return as_number(self.metric(y_true, self.y_proba, **options))
        # No weights were given, so these are the numbers of times a row was drawn.
        rows = np.repeat(np.arange(len(weight)), weight.astype(int))
        given = y_true[rows], self.y_proba[rows]
        return as_number(self.metric(*given, **self.options))

    def _needs_absent(self, weight: Floats) -> bool:
        """Return whether the metric is undefined without a class that was not drawn.

        It is tried once for each class, as scikit-learn would warn for each draw.
        """
        rows, codes = self._rare
        if not len(rows):
            return False
        for code in np.flatnonzero(np.bincount(codes, weight[rows]) == 0).tolist():
            if code not in self._needed:
                others = self.weight.copy()
                others[rows[codes == code]] = 0
                drawn = {"y_true": self.y_true, "weight": others}
                self._needed[code] = np.isnan(_measure_or_nan(self._measure, drawn))
            if self._needed[code]:
                return True
        return False

    @cached_property
    def _needed(self) -> dict[int, bool]:
        return {}

    @cached_property
    def _rare(self) -> tuple[Ints, Ints]:
        """Rows of classes that a draw may lack, and numbers of these classes."""
        rows = np.flatnonzero(self.weight)
        values = self.y_true[rows] if self.y_true.ndim == 1 else np.zeros(len(rows))
        _, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
        if np.sum(counts <= RARE) > RARE:  # such as first arguments that are not labels
            return rows[:0], codes[:0]
        is_rare = counts[codes] <= RARE
        return rows[is_rare], np.unique(codes[is_rare], return_inverse=True)[1]

    @cached_property
    def _takes_weights(self) -> bool:
        return accepts(self.metric, "sample_weight")

    def with_values(self) -> RowSample:
        """Set the values of the rows, if the metric is their mean.

        Measure the sample afterwards: in single precision, the metric and the mean
        differ in the last digits, so a draw equal to the sample would not tie with it.
        """
        values = values_of_samples(
            self.metric, self.y_true, self.y_proba, **self.options
        )
        if values is None:
            return self
        fast = replace(self, values=values)
        return fast if is_equal(fast.measure(), self.measure()) else self

    def swap(self, other: RowSample, rows: Bools) -> RowSample:
        """Return the sample with the predictions of another one in some rows."""
        columns = rows if self.y_proba.ndim == 1 else rows[:, None]
        proba = np.where(columns, other.y_proba, self.y_proba)
        if self.values is None or other.values is None:
            return replace(self, y_proba=proba, values=None)
        values = np.where(rows, other.values, self.values)
        return replace(self, y_proba=proba, values=values)

    def with_classes(self) -> RowSample:
        """Set `labels` of the metric; a class may be absent from drawn labels."""
        takes_labels = "labels" in signature(self.metric).parameters
        if self.options or self.y_true.ndim > 1 or not takes_labels:
            return self
        return replace(self, options={"labels": np.unique(self.y_true)})

    @property
    def n_units(self) -> int:
        """Number of rows, or clusters, that are drawn."""
        return sum(map(len, self.strata))

    def of_rows(self, values: Array) -> Array:
        """Return the value of each row, given those of the units."""
        return values if self.clusters is None else values[self.clusters]

    def draw_all(self, seed: int) -> dict[str, Array]:
        rng = np.random.default_rng(seed)
        drawn = [rows[rng.integers(len(rows), size=len(rows))] for rows in self.strata]
        times = np.bincount(np.concatenate(drawn), minlength=self.n_units)
        return {"weight": self.weight * self.of_rows(times)}

    def draw_half(self, seed: int) -> dict[str, Array]:
        """Draw half of the samples (rounded up) without replacement."""
        rng = np.random.default_rng(seed)
        halves = [rng.permutation(rows)[: (len(rows) + 1) // 2] for rows in self.strata]
        is_drawn = np.zeros(self.n_units, dtype=bool)
        is_drawn[np.concatenate(halves)] = True
        return {"weight": np.where(self.of_rows(is_drawn), self.weight, 0)}

    def draw_calibrated(self, seed: int) -> dict[str, Array]:
        return {"y_true": self._sampler(np.random.default_rng(seed))}

    def leave_out(self, rng: np.random.RandomState, _: int) -> tuple[Draw, int]:
        n_parts = min(self.n_units, JACKKNIFE_PARTS)
        part = np.empty(self.n_units, dtype=int)
        # Cyclic, so that each part contains the same fraction of each stratum.
        order = np.concatenate([rng.permutation(rows) for rows in self.strata])
        part[order] = np.arange(self.n_units) % n_parts
        return partial(_leave_out, self.weight, self.of_rows(part)), n_parts

    @cached_property
    def _sampler(self) -> Callable[[Any], Array]:
        """Function that draws labels from the probabilities, given a generator."""
        y_true, proba, labels = self.y_true, self.y_proba, self.labels
        if y_true.ndim == 2:
            return partial(_draw_indicators, proba, y_true != y_true)
        n_classes = 2 if proba.ndim == 1 else proba.shape[1]
        encode_labels(y_true, labels=labels, n_classes=n_classes)
        classes = np.unique(y_true) if labels is None else np.asarray(labels)
        pos_label = fixed_by_partial(self.metric, "pos_label", None)
        if proba.ndim == 1 and pos_label is not None:
            # The probabilities are those of this class.
            code = positive_code(pos_label, None, classes)
            classes = classes[[1 - code, code]]
        return class_sampler(classes, proba)


def take_sample(
    metric: Metric,
    y_true: ArrayLike,
    y_proba: ArrayLike,
    labels: ArrayLike | None,
    sample_weight: ArrayLike | None,
    *,
    stratify: bool,
    clusters: ArrayLike | None = None,
    name: str = "y_proba",
) -> RowSample:
    """Return the `RowSample` of a metric. The metric checks the rest of its input."""
    if interval_kind(metric)[0].takes_two_samples:
        refused = {"labels": labels, "sample_weight": sample_weight}
        refused["clusters"] = clusters
        return _take_two_samples(metric, y_true, y_proba, refused)
    labels = fixed_by_partial(metric, "labels", labels)
    sample_weight = fixed_by_partial(metric, "sample_weight", sample_weight)
    # The samples are drawn here; the metric reads those that it is called with.
    check_columns(y_proba, y_true, labels, name)
    y_true = as_labels(y_true, "y_true")
    if is_multilabel(y_true):
        y_proba = join_labels(y_proba)
    proba = check_proba_shape(y_proba, name=name, allow_1d=True)
    if y_true.shape[1:] == (1,):
        y_true = y_true[:, 0]
    weight = check_sample_weight(sample_weight, proba)
    proba, options = metric_input(metric, y_true, proba, labels, weight)
    weight = options.pop("sample_weight", np.ones(len(proba)))
    clusters = read_clusters(clusters, len(proba), weight)
    strata = _rows_by_class(y_true) if stratify else [np.arange(len(proba))]
    if clusters is not None:
        if stratify:
            raise ValueError(
                "stratify must be False with clusters, got True, because a cluster may "
                "contain several classes. Use stratify=False."
            )
        strata = [np.arange(clusters.max() + 1)]
    known: Options = {"labels": options.get("labels", labels), "clusters": clusters}
    return RowSample(metric, y_true, proba, options, weight, strata, **known)


def check_number(value: Any) -> float:
    """Raise an error if the value of a metric is not a finite number."""
    value = as_number(value)
    if not np.isfinite(value):
        raise ValueError(
            "metric must be finite for the sample, got "
            f"{'NaN' if np.isnan(value) else 'infinity'}. Pass samples of every class, "
            "without probabilities of 0 for the true class."
        )
    return value


def _take_two_samples(
    metric: Metric,
    scores_in: ArrayLike,
    scores_out: ArrayLike,
    refused: Options,
) -> RowSample:
    """Return the sample of a metric of two samples of scores, as one with weights."""
    for name, value in refused.items():
        if value is not None:
            raise ValueError(
                f"{name} must be None for a metric of two samples of scores, got "
                f"{shown(value)}. Do not pass it."
            )
    scores_in = as_numbers(scores_in, "scores_in")
    scores_out = as_numbers(scores_out, "scores_out")
    scores = np.concatenate([np.ravel(scores_in), np.ravel(scores_out)])
    is_in = np.arange(len(scores)) < np.size(scores_in)
    strata = [np.flatnonzero(is_in), np.flatnonzero(~is_in)]
    metric = partial(_measure_two_samples, metric)
    return RowSample(metric, is_in, scores, {}, np.ones(len(scores)), strata)


def _measure_two_samples(
    metric: Metric, is_in: Bools, scores: Floats, *, sample_weight: Floats
) -> Any:
    times = sample_weight.astype(int)
    return metric(*(scores[part].repeat(times[part]) for part in (is_in, ~is_in)))


def _rows_by_class(y_true: Array) -> list[Ints]:
    """Return the rows of each class."""
    if y_true.ndim != 1:
        raise ValueError(
            "stratify must be False for multilabel y_true, got True and y_true of "
            f"shape {y_true.shape}. Use stratify=False."
        )
    order = np.argsort(y_true, kind="stable")
    counts = np.unique(y_true, return_counts=True)[1]
    return np.split(order, counts.cumsum()[:-1])


def _leave_out(weight: Floats, part: Ints, number: int) -> dict[str, Array]:
    """Return weights that leave out a part of the samples."""
    return {"weight": np.where(part == number, 0, weight)}


def measure_draws(
    measure: Callable[..., Any],
    draw: Draw,
    seeds: Ints,
    *,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Floats:
    """Return the values of the metric for the draws for which it is defined."""
    is_one = effective_n_jobs(n_jobs) == 1 and not verbose
    blocks = np.array_split(seeds, 1 if is_one else min(len(seeds), N_BLOCKS))
    # The jobs of joblib work on several draws at a time instead.
    with one_blas_thread():
        values = Parallel(n_jobs=n_jobs, verbose=verbose)(
            delayed(_measure_block)(measure, draw, block) for block in blocks
        )
    values = np.concatenate(values)
    defined = values[~np.isnan(values)]
    if 2 * len(defined) < len(values):
        raise ValueError(
            "metric must be defined for most of the drawn samples, got "
            f"{len(values) - len(defined)} of {len(values)} undefined. Pass more "
            "samples of each class, or, without clusters, use stratify=True in "
            "bootstrap_interval."
        )
    return defined


def _measure_block(measure: Callable[..., Any], draw: Draw, seeds: Ints) -> list[float]:
    # The metric has checked its options for the sample itself.
    no_checks = config_context(skip_parameter_validation=True)
    # The block may be in another process than the limit of `measure_draws`.
    with without_warnings(), no_checks, one_blas_thread():
        return [_measure_or_nan(measure, draw(seed)) for seed in seeds]


def _measure_or_nan(measure: Callable[..., Any], drawn: dict[str, Array]) -> float:
    """Return the metric, or NaN if it is undefined because of weights of 0."""
    try:
        return float(measure(**drawn))
    except (ValueError, ZeroDivisionError, UndefinedMetricWarning):
        # The warning is an error if the filters of the user say so.
        return np.nan


def class_sampler(classes: ArrayLike, proba: Floats) -> Callable[[Any], Array]:
    """Return a function that draws a class for each row, given a generator."""
    classes = np.asarray(classes)
    cumulated = (1 - proba)[:, None] if proba.ndim == 1 else proba.cumsum(axis=1)
    if proba.ndim == 2:
        cumulated = cumulated[:, :-1] / cumulated[:, -1:]
    return partial(_draw_labels, classes, cumulated)


def _draw_indicators(
    proba: Floats, is_unknown: Bools, rng: np.random.Generator
) -> Array:
    """Draw the labels of a multilabel problem independently, all that are known."""
    drawn = (rng.random(proba.shape) < proba).astype(int)
    return np.where(is_unknown, np.nan, drawn) if is_unknown.any() else drawn


def _draw_labels(classes: Array, cumulated: Floats, rng: np.random.Generator) -> Array:
    """Draw one of the classes for each row of cumulated probabilities."""
    uniform = rng.random((len(cumulated), 1))
    return classes[(uniform >= cumulated).sum(axis=1)]
