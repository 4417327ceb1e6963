"""Paired test of the difference of a metric between two models."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri
from sklearn.utils import check_random_state

from sklearn_calib._numerics.binning import class_gap_norm, read_bins
from sklearn_calib._sklearn.metric_options import (
    known_labels,
    name_of,
    refuse_options,
    with_options,
)
from sklearn_calib._sklearn.scorer_objects import metric_and_input
from sklearn_calib._validation.declarations import (
    CLUSTERS,
    INTERVAL,
    PROGRESS,
    TARGETS,
    interval_kind,
    validate_params,
)
from sklearn_calib._validation.labels import column_classes
from sklearn_calib._validation.probabilities import (
    check_proba,
    check_proba_shape,
    check_range,
)
from sklearn_calib._validation.samples import check_columns, read_samples
from sklearn_calib._validation.types import (
    Array,
    Floats,
    Ints,
    Metric,
    Options,
    Seed,
    Weights,
)
from sklearn_calib.metrics._draws import (
    RowSample,
    check_number,
    measure_draws,
    take_sample,
)
from sklearn_calib.metrics._hypothesis_tests.consistency import (
    check_takes_labels,
    tail_pvalue,
)
from sklearn_calib.metrics._hypothesis_tests.spiegelhalter import ALTERNATIVES
from sklearn_calib.metrics._intervals.bin_noise import bin_cells, cell_sums, evaluated
from sklearn_calib.metrics._model_selection.metric_scorers import find_scorer

# The bounds of calibration errors are averaged over this number of random folds.
N_SPLITS = 20
N_FOLDS = 5
# Step of the numerical derivative.
STEP = 1e-6
# Limits of the number of groups whose influences are computed. It is lower if there
# are many bins.
FEWEST, MOST, GROUP_SUMS = 20, 200, 2**22
BINS = {"n_bins": 15, "strategy": "uniform", "norm": "l1", "average": "mean"}


class DifferenceResult(NamedTuple):
    """Result of a test of the difference between two models."""

    statistic: float
    pvalue: float
    low: float
    high: float


class PairedSample(NamedTuple):
    """Predictions of two models for the same samples."""

    a: RowSample
    b: RowSample

    def measure(self, swapped: Array | None = None, weight: Weights = None) -> float:
        """Return the difference, optionally for swapped rows or other weights."""
        a, b = self.a, self.b
        if swapped is not None:
            a, b = a.swap(b, swapped), b.swap(a, swapped)
        return a.measure(weight=weight) - b.measure(weight=weight)


@validate_params(
    {
        **TARGETS,
        "y_proba_a": TARGETS["y_proba"],
        "y_proba_b": TARGETS["y_proba"],
        **INTERVAL,
        **CLUSTERS,
        **PROGRESS,
        "alternative": [ALTERNATIVES],
    },
    # The metric checks the other options.
    prefer_skip_nested_validation=False,
)
def difference_test(
    metric: str | Metric,
    y_true: ArrayLike,
    y_proba_a: ArrayLike,
    y_proba_b: ArrayLike,
    *,
    alternative: str = "two-sided",
    confidence_level: float = 0.95,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    n_resamples: int = 1000,
    random_state: Seed = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    **options: Any,
) -> DifferenceResult:
    r"""Paired test of the difference of a metric between two models.

    A small p-value is evidence that the metric of one model is larger in the
    population. For calibration errors without a valid test, an error is raised.

    Parameters
    ----------
    metric : callable or str
        Metric with the signature `metric(y_true, y_proba, *, labels, sample_weight)`
        that returns a number, such as :func:`aurc_loss` or
        :func:`sklearn.metrics.log_loss`. The parameters `labels` and `sample_weight`
        are only needed for labels that are not sorted, and for weights. A string is the
        name of a scorer, such as "neg_ece", see :func:`get_scorer`. Its metric is then
        compared without the sign, so lower is better for names with `neg_`.

    y_true : array-like of shape (n_samples,) or (n_samples, n_labels)
        True labels, of any type.

    y_proba_a : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities of the first model.

    y_proba_b : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities of the second model, for the same samples and of the
        same shape.

    alternative : {"two-sided", "greater", "less"}, default="two-sided"
        Alternative hypothesis: the metric of the first model is different from, greater
        than or less than that of the second.

    confidence_level : float, default=0.95
        Confidence level of the interval, in (0, 1).

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`. By default, the sorted distinct values of
        `y_true`. Metrics of other packages receive them sorted, with the columns in the
        same order.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights, passed to the metric.

    clusters : array-like of shape (n_samples,), default=None
        Cluster of each sample, such as the patient, if the samples of a cluster are not
        independent. Whole clusters are then resampled and swapped. There should be
        at least 50; otherwise, there is a warning. By default, all samples are
        independent.

    n_resamples : int, default=1000
        Number of random draws, for the p-value and for the interval. Not used for
        calibration errors.

    random_state : int, RandomState instance or None, default=None
        Controls the random draws. Pass an int for reproducible results.

    n_jobs : int, default=None
        Number of joblib jobs. The result does not depend on it.

    verbose : int, default=0
        Verbosity of joblib.

    **options : dict
        Options passed to the metric, such as `n_bins`. For an option with the name of a
        parameter above, pass a `functools.partial` as `metric`. They are not accepted
        with the name of a scorer.

    Returns
    -------
    result : DifferenceResult
        Named tuple of the `statistic`, which is the metric of the first model minus
        that of the second, the `pvalue`, and the limits `low` and `high` of the
        confidence interval of the difference.

    Raises
    ------
    TypeError
        If there are weights and the metric does not have the parameter `sample_weight`,
        or it does not return a number, or takes two samples of scores.

    ValueError
        If the probabilities of the two models have different shapes, or the metric is
        undefined for most of the draws, or is a calibration error without a valid test,
        or the input is invalid.

    See Also
    --------
    bootstrap_interval : Confidence interval of the metric of one model.

    Notes
    -----
    For metrics that are not calibration errors, the null hypothesis is that the
    predictions of the two models are exchangeable given the true labels. The
    predictions are swapped in random subsets of the samples (a permutation test). If
    :math:`k` of :math:`m` draws are at least as extreme as the statistic, the p-value
    is :math:`(1 + k) / (1 + m)`, and for "two-sided" twice the smaller of the two
    one-sided p-values [1]_. For means over the samples, such as the log loss and the
    Brier score, a small p-value is evidence that the means differ. The interval is a
    percentile interval of the paired bootstrap.

    For calibration errors, the null hypothesis is that the errors :math:`E_A` and
    :math:`E_B` of the population are equal. The estimates :math:`T` of errors are
    biased upward, and the bias is larger for better calibrated models, so the
    difference of two estimates is not informative. The test uses cross-fitting: the
    samples are assigned to five random folds, and the mean of the gaps in a fold,
    multiplied by their signs in the other four folds, is an estimate :math:`S` that is
    biased downward. "greater" is tested by :math:`S_A - T_B`, whose mean is at most
    :math:`E_A - E_B`, "less" by :math:`S_B - T_A`, and "two-sided" by both, with twice
    the smaller p-value. These bounds are averaged over 20 random assignments. They are
    tested with a normal distribution, whose standard error is computed from the
    influences of the samples on :math:`T_A - T_B`. The limits of the interval are the
    bounds minus or plus the quantile of this distribution, so the interval does not
    contain 0 if the p-value is small.

    The test is valid for gaps of any size, but it has little power if the gaps are
    small compared to their noise. Fewer bins or more samples increase the power. It is
    available for errors with "uniform" and "quantile" bins, where the derivative of the
    norm replaces the signs for norms other than "l1", and for
    :func:`ks_calibration_error`. Calibration errors of other packages are not
    recognised, and the test for other metrics is not valid for them.

    References
    ----------
    .. [1] M. D. Ernst, "Permutation Methods: A Basis for Exact Inference", Statistical
       Science 19, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics import log_loss
    >>> from sklearn_calib.metrics import difference_test
    >>> rng = np.random.default_rng(0)
    >>> proba = rng.uniform(size=500)
    >>> y_true = rng.uniform(size=500) < proba
    >>> settings = {"n_resamples": 99, "random_state": 0}
    >>> result = difference_test(log_loss, y_true, proba, proba**2, **settings)
    >>> result.statistic < 0, result.pvalue < 0.05, result.high < 0
    (True, True, True)
    >>> difference_test("neg_ece", y_true, proba, proba**2, **settings).statistic < 0
    True
    """
    probas: dict[str, Any] = {"y_proba_a": y_proba_a, "y_proba_b": y_proba_b}
    if isinstance(metric, str):
        received = f"the name of a scorer, {metric!r}"
        refuse_options(options, difference_test, received)
        metric, labels = _read_scorer(metric, y_true, probas, labels)
    metric = with_options(metric, options, difference_test)
    check_takes_labels(metric)
    _check_has_test(metric)
    # A warning is issued once, not for each model.
    labels = known_labels(metric, y_true, y_proba_a, labels)
    data = metric, y_true, probas["y_proba_a"], labels, sample_weight
    a = take_sample(*data, stratify=False, clusters=clusters, name="y_proba_a")
    data = metric, y_true, probas["y_proba_b"], labels, sample_weight
    b = take_sample(*data, stratify=False, name="y_proba_b")
    _check_values(a, "y_proba_a")
    _check_values(b, "y_proba_b")
    if a.y_proba.shape != b.y_proba.shape:
        raise ValueError(
            "y_proba_b must have the shape of y_proba_a, got "
            f"{b.y_proba.shape} and {a.y_proba.shape}. Pass predictions for the same "
            "samples and classes."
        )
    pair = PairedSample(a.with_values(), b.with_values())
    statistic = check_number(pair.measure())
    rng = check_random_state(random_state)
    seeds = rng.randint(np.iinfo(np.int32).max, size=(2, n_resamples))
    progress: Options = {"n_jobs": n_jobs, "verbose": verbose}
    tail = (1 - confidence_level) / 2
    if interval_kind(metric)[0].is_error:
        splits = rng.randint(np.iinfo(np.int32).max, size=N_SPLITS)
        errors = as_gap_error(a), as_gap_error(b)
        excess = ErrorExcess(*errors, a.weight / a.weight.mean(), a)
        # The scale must not be zero.
        scale = excess.standard_error(rng) or np.finfo(float).tiny
        bounds = np.array(
            [
                measure_draws(bound.measure, bound.split, splits, **progress).mean()
                - bound.upper()
                for bound in (excess, ErrorExcess(*errors[::-1], excess.weight, a))
            ]
        )
        # Far from 0, the probability underflows, but it is not 0.
        tails = np.maximum(ndtr(-bounds / scale), np.finfo(float).tiny)
        greater, less = map(float, tails)
        both = min(1.0, 2 * min(greater, less))
        pvalue = {"greater": greater, "less": less}.get(alternative, both)
        low, high = (bounds + scale * ndtri(tail)) * [1, -1]
    else:
        draw = partial(_draw_swapped, a)
        swapped = measure_draws(pair.measure, draw, seeds[0], **progress)
        draws = measure_draws(pair.measure, a.draw_all, seeds[1], **progress)
        low, high = np.quantile(draws, [tail, 1 - tail])
        pvalue = tail_pvalue(statistic, swapped, alternative)
    return DifferenceResult(statistic, pvalue, float(low), float(high))


def _read_scorer(
    name: str, y_true: ArrayLike, probas: dict[str, Any], labels: ArrayLike | None
) -> tuple[Metric, ArrayLike | None]:
    """Return the metric of a named scorer and the labels, and change `probas`.

    They become what the metric takes.
    """
    scorer = find_scorer(name, "metric")
    for key, proba in probas.items():
        # The metric of the scorer reads what it is called with.
        check_columns(proba, y_true, labels, key)
        proba = check_proba_shape(proba, name=key, allow_1d=True)
        metric, probas[key] = metric_and_input(scorer, proba)
        if labels is None and probas[key].ndim < proba.ndim:
            labels = column_classes(y_true, None)  # the class of the column is known
    return metric, labels


def _check_has_test(metric: Metric) -> None:
    """Raise an error for calibration errors without a valid test of the difference."""
    kind, given = interval_kind(metric)
    # A comparison of an array of edges with a string would be an array.
    is_binned = kind.bins is not None and str(given.get("n_bins")) != "sweep"
    if not kind.is_error or is_binned or kind.is_cumulated:
        return
    raise ValueError(
        "metric must be a loss, a score, a calibration error with bins that do not "
        f"depend on the labels, or ks_calibration_error, got {name_of(metric)!r} "
        "with these options. Use one of these, or compare the intervals of both models "
        "from bootstrap_interval."
    )


def _check_values(sample: RowSample, name: str) -> None:
    """Check probabilities here, because the metric would report another name."""
    if sample.y_true.ndim == 1:
        check_proba(sample.y_proba, name=name, allow_1d=True)
    else:
        check_range(sample.y_proba.min(), sample.y_proba.max(), name)


def _draw_swapped(sample: RowSample, seed: int) -> dict[str, Array]:
    """Draw the samples, or clusters, whose predictions are swapped."""
    rng = np.random.default_rng(seed)
    swapped = rng.integers(2, size=sample.n_units, dtype=bool)
    return {"swapped": sample.of_rows(swapped)}


class GapError(NamedTuple):
    """A calibration error that is a norm of gaps of bins independent of the labels.

    The Kolmogorov-Smirnov error is the largest cumulative gap over distinct values.
    """

    deviation: Floats  # (n_samples, n_columns)
    cells: Ints
    shape: tuple[int, int]
    norm: str | float
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
        bins = read_bins(given["n_bins"], given["strategy"])
        cells, shape = bin_cells(values, sample.weight, *bins)
    return GapError(
        values - correct,
        cells,
        shape,
        given["norm"],
        given["average"],
        kind.is_cumulated,
    )
