"""Calibration errors over chunks of data, from sums that can be merged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_random_state

from sklearn_calib._numerics.bands import BIN_INTERVALS
from sklearn_calib._numerics.binning import end_at_data, read_bins
from sklearn_calib._state.mergeable import Accumulator
from sklearn_calib._state.schema import (
    NON_NEGATIVE,
    GroupNames,
    ListOf,
    Number,
    Numbers,
    Object,
    Spec,
)
from sklearn_calib._validation.arrays import has_dask_arrays, shown
from sklearn_calib._validation.dask_arrays import sum_of_blocks
from sklearn_calib._validation.declarations import (
    BETWEEN_0_AND_1,
    BINS,
    COUNT,
    DRAWS,
    INTERVAL,
    MODES,
    StrOptions,
    validate_params,
)
from sklearn_calib._validation.labels import as_labels
from sklearn_calib._validation.samples import check_columns
from sklearn_calib._validation.types import Metric, Options, Seed
from sklearn_calib.metrics._accumulator.cell_bands import band_of_bins, histogram
from sklearn_calib.metrics._accumulator.cell_draws import CellSample
from sklearn_calib.metrics._accumulator.cell_metrics import (
    RANKINGS,
    check_metric,
    metric_and_options,
    metric_of_cells,
    quantile_bound,
    ranking_bound,
)
from sklearn_calib.metrics._binned_sums.grid import Cells, Grid, check_cells
from sklearn_calib.metrics._binned_sums.sample_sums import (
    Sums,
    chunk_sums,
    split_by_group,
)
from sklearn_calib.metrics._calibration_errors.binned_error import (
    expected_calibration_error,
)
from sklearn_calib.metrics._draws import check_number, measure_draws
from sklearn_calib.metrics._intervals.bootstrap import METHODS, interval

# Values by which sums may exceed their bounds by rounding errors, relative to the sum
# of the weights.
ROUNDING = 1e-6


class CalibrationAccumulator(Accumulator):
    r"""Calibration errors (such as the ECE) over chunks of data, in constant memory.

    The accumulator stores sums over cells of the confidence instead of the samples.
    Accumulators of several workers can be merged in any order, with `+` or `sum`, and
    saved as JSON by :func:`sklearn_calib.save` or
    :func:`sklearn_calib.persistence.to_dict`.

    Parameters
    ----------
    labels : array-like of shape (n_classes,)
        Labels of the columns of `y_proba`, such as `classes_` of the classifier. A
        chunk need not contain all of them.

    n_bins : int or array-like of shape (n_edges,), default=15
        Number of bins, or their edges, as in :func:`expected_calibration_error`.

    strategy : {"uniform", "quantile"}, default="uniform"
        Binning strategy: bins of equal width, for which the errors are exact, or bins
        with equal numbers of samples, for which :meth:`error_bound` bounds the
        approximation error.

    mode : {"top_label", "positive", "classwise"} or list of them, default="top_label"
        Probability that is evaluated, as in :func:`expected_calibration_error`. Here,
        the default does not depend on the shape of `y_proba`. Several modes are
        accumulated in one pass.

    Attributes
    ----------
    cells_ : dict of str to Cells
        Sums for each mode. `sums` contains the sums of the weights, of confidence minus
        correctness, and of correctness in each occupied cell, of shape (3, n_occupied).
        With sample weights, it also contains the sums of squared weights of all and of
        correct samples. `place` is the index of the cell, to which the number of the
        class times the number of cells is added for mode "classwise".

    totals_ : ndarray of shape (5,)
        Sums over the samples of weight, correctness, confidence, Brier score and log
        loss.

    n_samples_ : int
        Number of samples with positive weight. Compare it with the number of samples
        that were expected: a part that was lost or merged twice changes the errors
        without a warning.

    groups_ : dict of CalibrationAccumulator
        Accumulator of each group of samples. It is empty unless `groups` is passed to
        :meth:`update`.

    See Also
    --------
    expected_calibration_error : The same error for arrays in memory.
    classwise_calibration_error : Class-wise error for arrays in memory.
    bootstrap_interval : Confidence intervals for arrays in memory.

    Notes
    -----
    Samples are counted in 4096 cells of equal width in :math:`\arcsin \sqrt p`, which
    are at most 3.8e-4 wide, and 1.5e-7 at 0 and 1. The edges of uniform bins divide
    these cells further. With mode "classwise" and "uniform", the cells are the bins.

    Errors with uniform bins are exact. Other metrics are computed by their functions
    with the mean confidence of each cell, as if it were the confidence of all samples
    of the cell. The absolute differences from the values of all samples were at most

    - 2e-4 for AURC, E-AURC and the AUROC of failure detection, 5e-5 for the AUGRC;
    - 5e-5 for the smooth ECE, the smooth calibration error, the root Brier score, and
      the kernel calibration error with a given bandwidth;
    - 1e-4 for the KS and the kernel density error;
    - 3e-3 for the isotonic error, the score decomposition, the selective risk at a
      coverage, and the statistic of Spiegelhalter's test

    in 100 random problems of 1000 samples, whose logits have standard deviations from
    0.3 to 8, and are smaller for more samples. They are larger if many confidences are
    within 1e-7 of 1, because these share a cell. The log loss is less accurate for
    probabilities near 0. A metric whose value jumps, such as :func:`coverage_at_risk`
    or the number of bins of "sweep", can differ more.

    For "quantile", a cell that contains the edge of a bin belongs to the bin below it,
    although some of its samples may belong to the bin above. This does not change the
    "l1" error if both bins are overconfident, or both underconfident.

    Use chunks of at least 1e4 samples to limit the rounding error. For 1e8 samples, the
    result then agrees with that of a single pass to about 1e-12.

    Examples
    --------
    >>> from sklearn_calib.metrics import CalibrationAccumulator
    >>> one = CalibrationAccumulator(labels=["ham", "spam"], mode="positive")
    >>> other = CalibrationAccumulator(labels=["ham", "spam"], mode="positive")
    >>> one = one.update(["ham", "spam"], [0.1, 0.6]).update(["spam"], [0.9])
    >>> other = other.update(["ham"], [0.4])
    >>> round(one.merge(other).compute(), 3)
    0.25
    >>> one.scores()["accuracy"]
    1.0

    Any metric of the confidence, such as the area under the risk-coverage curve:

    >>> from sklearn_calib.metrics import aurc_loss
    >>> total = sum([one, other])
    >>> round(total.compute(aurc_loss), 3)
    0.0
    """

    groups_: dict[Any, Self]
    n_samples_: int = 0
    _parameter_constraints = {
        "labels": ["array-like"],
        "n_bins": [*COUNT, "array-like"],
        "strategy": BINS["strategy"],
        "mode": [StrOptions(MODES), list, tuple],
    }

    def __init__(
        self,
        *,
        labels: ArrayLike,
        n_bins: int | ArrayLike = 15,
        strategy: str = "uniform",
        mode: str | Sequence[str] = "top_label",
    ) -> None:
        self.labels: Any = labels
        self.n_bins: Any = n_bins
        self.strategy = strategy
        self.mode: Any = mode

    @classmethod
    def from_batches(cls, batches: Iterable[Sequence[Any]], **params: Any) -> Self:
        """Create an accumulator from an iterable of batches.

        Parameters
        ----------
        batches : iterable of tuples
            The arguments of :meth:`update` for each batch: `(y_true, y_proba)` or
            `(y_true, y_proba, sample_weight)`. Only one batch at a time is in memory.

        **params : dict
            Parameters of the accumulator, such as `labels`.

        Returns
        -------
        accumulator : CalibrationAccumulator
            A new accumulator.

        Raises
        ------
        TypeError
            If `batches` is not iterable, or a batch is not a tuple or a list.

        ValueError
            If a batch does not have two or three items, or is invalid.
        """
        new = cls(**params)
        if not isinstance(batches, Iterable):
            raise TypeError(
                "batches must be an iterable of tuples (y_true, y_proba) or "
                f"(y_true, y_proba, sample_weight), got {shown(batches)}. Pass a list, "
                "or call the function that returns the batches."
            )
        for number, batch in enumerate(batches):
            if not isinstance(batch, tuple | list):
                raise TypeError(
                    "batches must be an iterable of tuples (y_true, y_proba) or "
                    f"(y_true, y_proba, sample_weight), got {type(batch).__name__} for "
                    f"batch {number}. Pass zip(y_true_batches, y_proba_batches)."
                )
            if not 2 <= len(batch) <= 3:
                raise ValueError(
                    "batches must have two or three items, (y_true, y_proba) or "
                    f"(y_true, y_proba, sample_weight), got {len(batch)} for batch "
                    f"{number}."
                )
            new.update(*batch)
        return new

    def update(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Add a chunk of samples.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels. Each block of a Dask array is a chunk, see Notes.

        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities. A 1-d array contains the probabilities of the
            positive class, which is the second of the two labels.

        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights. A chunk whose weights are all zero, like a chunk without
            samples, adds nothing.

        groups : array-like of shape (n_samples,) or (n_samples, n_features), \
                default=None
            Group of each sample, as in :func:`per_group`. The samples are also added to
            the accumulators of their groups in `groups_`. To save the accumulator, the
            names must be those of a single column.

        Returns
        -------
        self : CalibrationAccumulator
            The object itself.

        Raises
        ------
        ValueError
            If a label is unknown, or `y_proba` contains values that are not
            probabilities, or a parameter has changed. The chunk is then not added.

        Notes
        -----
        Dask adds the sums of the blocks of its arrays where they are computed, on the
        workers of a cluster too, and loads only the blocks that it works on. The other
        arrays are split into the same blocks.
        """
        self._validate_params()
        grids = {mode: self._grid(mode) for mode in self._modes()}
        # Groups and blocks have no names of columns.
        check_columns(y_proba, None, self.labels)
        if has_dask_arrays(y_true, y_proba, sample_weight, groups):
            arrays: Options = {"y_true": y_true, "y_proba": y_proba}
            arrays |= {"sample_weight": sample_weight, "groups": groups}
            return self.merge(sum_of_blocks(partial(_accumulate, clone(self)), arrays))
        if groups is None:
            new = chunk_sums(y_true, y_proba, sample_weight, self.labels, grids)
            return self if new is None else self._add(new)
        parts = split_by_group(groups, y_true, y_proba, sample_weight)
        # All parts are checked before the first is added.
        sums = {
            name: chunk_sums(*part, self.labels, grids) for name, part in parts.items()
        }
        for name, new in sums.items():
            if new is not None:
                self._add(new)
                self._add_to_group(name, new)
        return self

    @overload
    def compute(self, *, mode: str | None = None, **options: Any) -> float: ...

    @overload
    def compute(
        self, metric: Metric, *, mode: str | None = None, **options: Any
    ) -> Any: ...

    def compute(
        self,
        metric: Metric = expected_calibration_error,
        *,
        mode: str | None = None,
        **options: Any,
    ) -> Any:
        """Return a metric of all samples added so far.

        Parameters
        ----------
        metric : callable, default=expected_calibration_error
            Metric of this package that is a function of the evaluated confidence and of
            correctness, such as :func:`aurc_loss`, :func:`ks_calibration_error` or
            :func:`spiegelhalter_test`. For mode "positive", any metric of two classes
            with the parameter `sample_weight`, also your own. The Notes of the class
            state their accuracy.

        mode : {"top_label", "positive", "classwise"}, default=None
            Evaluated mode. It can be omitted unless the accumulator has several.

        **options : dict
            Options of the metric, such as `coverage` of :func:`risk_at_coverage`.
            Errors with bins use the bins of the accumulator, unless `n_bins` or
            `strategy` is given; then they are approximate. With mode "classwise", they
            have the option `average`, as in :func:`classwise_calibration_error`.

        Returns
        -------
        value : float or named tuple
            What the metric returns.

        Raises
        ------
        TypeError
            If the metric is not a function, or does not accept sample weights.

        ValueError
            If the metric is not defined for the mode, or an option is invalid.

        sklearn.exceptions.NotFittedError
            If no samples have been added.
        """
        self._check_has_seen()
        mode = self._resolve_mode(mode)
        metric, options = metric_and_options(metric, options, mode, self.compute)
        check_metric(metric, mode, options)
        cells, grid = self.cells_[mode], self._grid(mode)
        return metric_of_cells(cells, grid, self._n_rows(mode), metric, mode, options)

    def error_bound(
        self,
        metric: Metric = expected_calibration_error,
        *,
        mode: str | None = None,
        **options: Any,
    ) -> float:
        """Return a bound on the approximation error of :meth:`compute`.

        Parameters
        ----------
        metric : callable, default=expected_calibration_error
            :func:`expected_calibration_error`, or one of :func:`aurc_loss`,
            :func:`augrc_loss`, :func:`excess_aurc_loss` and
            :func:`failure_auroc_score`, which depend only on the order of the
            confidences.

        mode : {"top_label", "positive", "classwise"}, default=None
            Evaluated mode. It can be omitted unless the accumulator has several.

        **options : dict
            Options of a metric of the order.

        Returns
        -------
        bound : float
            Bound on the absolute difference from the metric of all samples at once. For
            the calibration error, it holds with `norm="l1"` and `reduce_bias=False`,
            and is 0 for "uniform". It is the worst case for the sums that are stored;
            the difference is usually much smaller.

        Raises
        ------
        ValueError
            If no bound is known for the metric.

        sklearn.exceptions.NotFittedError
            If no samples have been added.
        """
        self._check_has_seen()
        mode = self._resolve_mode(mode)
        grid = self._grid(mode)
        metric, options = metric_and_options(metric, options, mode, self.error_bound)
        if metric in RANKINGS and options.get("estimator") != "trapezoid":
            check_metric(metric, mode, options)
            return ranking_bound(self.cells_[mode], grid, metric, mode, options)
        if metric is not expected_calibration_error or options:
            raise ValueError(
                "metric must be expected_calibration_error without options, or one of "
                f"{[metric.__name__ for metric in RANKINGS]}, got {shown(metric)} with "
                f"{options}. No bound is known for others."
            )
        if self.strategy == "uniform":
            return 0.0
        rows = self.cells_[mode].rows(self._n_rows(mode), grid.n_cells)
        return float(np.mean([quantile_bound(row, grid) for row in rows]))

    @validate_params(
        {
            **INTERVAL,
            "method": [StrOptions(METHODS)],
        },
        # The metric checks the other options.
        prefer_skip_nested_validation=False,
    )
    def interval(
        self,
        metric: Metric = expected_calibration_error,
        *,
        mode: str | None = None,
        confidence_level: float = 0.95,
        method: str = "auto",
        n_resamples: int = 1000,
        random_state: Seed = None,
        **options: Any,
    ) -> tuple[float, float]:
        """Return a confidence interval of :meth:`compute` by a bootstrap of the cells.

        The time does not depend on the number of samples.

        Parameters
        ----------
        metric : callable, default=expected_calibration_error
            Metric that returns a number, as in :meth:`compute`.

        mode : {"top_label", "positive"}, default=None
            Evaluated mode. It can be omitted unless the accumulator has several.

        confidence_level : float, default=0.95
            Confidence level of the interval, in (0, 1).

        method : {"auto", "percentile", "basic", "bca", "debiased"}, default="auto"
            Method of the interval, as in :func:`bootstrap_interval`.

        n_resamples : int, default=1000
            Number of random draws.

        random_state : int, RandomState instance or None, default=None
            Controls the random draws. Pass an int for reproducible results.

        **options : dict
            Options of the metric.

        Returns
        -------
        low, high : float
            Limits of the interval.

        Raises
        ------
        ValueError
            If the mode is "classwise", or the method is not valid for the metric.

        sklearn.exceptions.NotFittedError
            If no samples have been added.

        Notes
        -----
        The numbers of correct and wrong samples of each cell are drawn from Poisson
        distributions. In :func:`bootstrap_interval`, a sample is drawn a binomial
        number of times with mean 1, which is nearly Poisson; only the total number of
        samples, which is fixed there, varies here. Weights are represented by the sums
        of their squares in each cell. For "debiased", halves of the samples and labels
        drawn from the probabilities are binomial numbers. In contrast to
        :func:`bootstrap_interval`, this method is also used for errors with bins.
        """
        sample = self._sample_of_cells(metric, mode, options, self.interval)
        rng = check_random_state(random_state)
        return interval(
            sample, sample.measure(), method, confidence_level, n_resamples, rng
        )

    @validate_params(
        {**DRAWS, "level": BETWEEN_0_AND_1},
        # The metric checks the other options.
        prefer_skip_nested_validation=False,
    )
    def consistency_bound(
        self,
        metric: Metric = expected_calibration_error,
        *,
        mode: str | None = None,
        level: float = 0.95,
        n_resamples: int = 1000,
        random_state: Seed = None,
        **options: Any,
    ) -> float:
        """Return the quantile of :meth:`compute` for a perfectly calibrated classifier.

        The numbers of correct samples of the cells are drawn repeatedly from their mean
        confidences. An observed calibration error below the bound is not evidence of
        miscalibration. The time does not depend on the number of samples.

        Parameters
        ----------
        metric : callable, default=expected_calibration_error
            Metric that returns a number, as in :meth:`compute`.

        mode : {"top_label", "positive"}, default=None
            Evaluated mode. It can be omitted unless the accumulator has several.

        level : float, default=0.95
            Probability that the metric of a calibrated classifier is at most the bound,
            in (0, 1).

        n_resamples : int, default=1000
            Number of random draws.

        random_state : int, RandomState instance or None, default=None
            Controls the random draws. Pass an int for reproducible results.

        **options : dict
            Options of the metric, such as `norm`.

        Returns
        -------
        bound : float
            Quantile of the metric.

        Raises
        ------
        ValueError
            If the mode is "classwise", or an option is invalid.

        sklearn.exceptions.NotFittedError
            If no samples have been added.

        See Also
        --------
        ece_consistency_bound : The bound of the ECE for arrays in memory.
        """
        sample = self._sample_of_cells(metric, mode, options, self.consistency_bound)
        seeds = check_random_state(random_state).randint(
            np.iinfo(np.int32).max, size=n_resamples
        )
        check_number(sample.measure())
        null = measure_draws(sample.measure, sample.draw_calibrated, seeds)
        return float(np.quantile(null, level))

    def _sample_of_cells(
        self, metric: Metric, mode: str | None, options: Options, method: Metric
    ) -> CellSample:
        """Return the cells from which `method` draws, with the metric to compute."""
        self._check_has_seen()
        mode = self._resolve_mode(mode)
        if mode == "classwise":
            raise ValueError(
                f'mode must be "top_label" or "positive" for {method.__name__}, got '
                '"classwise". The accumulator does not keep how the classes depend on '
                "each other."
            )
        metric, options = metric_and_options(metric, options, mode, method)
        check_metric(metric, mode, options)
        return CellSample(self.cells_[mode], self._grid(mode), metric, mode, options)

    def scores(self) -> dict[str, float]:
        """Return accuracy, mean confidence, Brier score and log loss of all samples.

        Returns
        -------
        scores : dict of str to float
            "accuracy" and "mean_confidence" of the predicted class; "log_loss" and
            "brier_score_loss" as defined by scikit-learn. For the log loss,
            probabilities of 0 are clipped to the machine epsilon of their dtype. The
            Brier score is that of the positive class for two classes, and the sum over
            classes for more.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If no samples have been added.
        """
        self._check_has_seen()
        accuracy, confidence, squares, log_loss = self.totals_[1:] / self.totals_[0]
        return {
            "accuracy": float(accuracy),
            "mean_confidence": float(confidence),
            "brier_score_loss": float(squares / (2 if len(self.labels) == 2 else 1)),
            "log_loss": float(log_loss),
        }

    @validate_params({**INTERVAL, "interval": [StrOptions(BIN_INTERVALS), None]})
    def reliability_curve(
        self,
        *,
        mode: str | None = None,
        interval: str | None = None,
        confidence_level: float = 0.95,
        n_resamples: int = 1000,
        random_state: Seed = None,
    ) -> dict[str, Any]:
        """Return the data of a reliability diagram.

        :meth:`ReliabilityDisplay.from_accumulator
        <sklearn_calib.displays.ReliabilityDisplay.from_accumulator>` draws it.

        Parameters
        ----------
        mode : {"top_label", "positive"}, default=None
            Evaluated mode. It can be omitted unless the accumulator has several.

        interval : str or None, default=None
            Interval of each bin: "clopper-pearson", "consistency" or "simultaneous", as
            in :class:`~sklearn_calib.displays.ReliabilityDisplay`.

        confidence_level : float, default=0.95
            Confidence level of the intervals, in (0, 1).

        n_resamples : int, default=1000
            Number of random draws. Not used with "clopper-pearson".

        random_state : int, RandomState instance or None, default=None
            Controls the random draws. Pass an int for reproducible results.

        Returns
        -------
        curve : dict
            The arguments of :class:`~sklearn_calib.displays.ReliabilityDisplay`, as in
            `ReliabilityDisplay(**curve).plot()`: edges, counts, frequencies and mean
            confidences of the bins (NaN for empty bins), the histogram, the calibration
            error, the mode and the intervals.

        Raises
        ------
        ValueError
            If the mode is "classwise", or an option is invalid.

        sklearn.exceptions.NotFittedError
            If no samples have been added.

        Notes
        -----
        With uniform bins, everything is exact but the consistency intervals, for which
        the samples of a cell have its mean confidence. With quantile bins, the cells
        that contain an edge of a bin, or of a bar of the histogram, belong to one side.
        """
        mode = self._resolve_mode(mode)
        if mode == "classwise":
            raise ValueError(
                'mode must be "top_label" or "positive" for a reliability curve, got '
                '"classwise". Use a separate accumulator with one of these modes.'
            )
        self._check_has_seen()
        grid, cells = self._grid(mode), self.cells_[mode]
        is_uniform = grid.strategy == "uniform"
        edges = np.r_[0.0, grid.fixed_edges(), 1.0]
        if grid.strategy == "quantile":
            last = grid.bin_ends(cells.place, cells.sums[0]) - 1
            low, *ends, high = grid.ends_of(cells.place[np.r_[0, last]])[1]
            edges = end_at_data(np.array(ends), low, high)
        weight, gap, correct = cells.in_bins(grid)
        filled = np.where(weight > 0, weight, np.nan)
        return {
            "bin_edges": edges,
            "counts": weight,
            "prob_true": correct / filled,
            "prob_pred": (correct + gap) / filled,
            "histogram": weight if is_uniform else histogram(cells, grid),
            "ece": self.compute(mode=mode),
            "mode": mode,
            "band": band_of_bins(
                cells,
                grid,
                interval,
                confidence_level,
                n_resamples=n_resamples,
                random_state=random_state,
            ),
            "interval": interval,
            "confidence_level": confidence_level,
        }

    def _resolve_mode(self, mode: str | None) -> str:
        """Return the mode to evaluate."""
        modes = self._modes()
        if mode is None and len(modes) == 1:
            return modes[0]
        if not isinstance(mode, str) or mode not in modes:
            raise ValueError(
                f"mode must be one of {modes}, the modes of this accumulator, got "
                f"{shown(mode)}."
            )
        return mode

    def _merge(self, other: Self) -> None:
        self._add(other._sums())
        for name, group in other.groups_.items():
            self._add_to_group(name, group._sums())

    def _sums(self) -> Sums:
        """Return the sums of all samples, of which there may be none."""
        if self._has_seen():
            return Sums(self.cells_, self.totals_, self.n_samples_)
        empty = Cells(np.empty(0, int), np.empty((3, 0)))
        return Sums(dict.fromkeys(self._modes(), empty), np.zeros(5), 0)

    def _add_to_group(self, name: Any, new: Sums) -> None:
        """Add sums to the accumulator of a group."""
        if name not in self.groups_:
            self.groups_[name] = type(self)(**self.get_params())
        self.groups_[name]._add(new)

    def _settings(self) -> Options:
        n_bins = np.asarray(self.n_bins).tolist()
        return {**super()._settings(), "n_bins": n_bins, "mode": self._modes()}

    def _modes(self) -> list[str]:
        """Return the modes as a list."""
        modes = [self.mode] if isinstance(self.mode, str) else list(self.mode)
        if not modes or any(
            mode not in [*MODES] or modes.count(mode) > 1 for mode in modes
        ):
            raise ValueError(
                f"mode must be one or several of {sorted(MODES)}, got "
                f"{shown(self.mode)}."
            )
        return modes

    def _n_rows(self, mode: str) -> int:
        """Return the number of classes that are evaluated separately."""
        return len(self.labels) if mode == "classwise" else 1

    def _grid(self, mode: str) -> Grid:
        """Return the cells of a mode; raise ValueError if they are too many."""
        is_fine = mode != "classwise" or self.strategy == "quantile"
        grid = Grid(*read_bins(self.n_bins, self.strategy), is_fine)
        check_cells(grid, self._n_rows(mode))
        return grid

    def _add(self, new: Sums) -> Self:
        """Add sums to the stored ones."""
        if self._has_seen():
            self._check_unchanged()
            new = self._sums().add(new)
        else:
            self._settings_seen, self.groups_ = self._settings(), {}
        self.cells_, self.totals_, self.n_samples_ = new
        return self

    @property
    def _state_schema(self) -> dict[str, Spec]:
        schema: dict[str, Spec] = {
            "totals_": Numbers(5),
            "n_samples_": Number(NON_NEGATIVE),
        }
        for mode in self._modes():
            size = f"n_{mode}"
            schema[f"{mode}_place_"] = Numbers(
                size, range=NON_NEGATIVE, increasing=True
            )
            schema[f"{mode}_sums_"] = Numbers("n_sums", size)
        schema["group_names_"] = GroupNames()
        schema["groups_"] = ListOf(Object(), "n_groups", is_optional=True)
        return schema

    def _get_state(self) -> dict[str, Any]:
        cells, totals, n_samples = self._sums()
        most = max(len(each.sums) for each in cells.values())
        state: dict[str, Any] = {"totals_": totals, "n_samples_": n_samples}
        for mode, each in cells.items():
            state[f"{mode}_place_"] = each.place.astype(np.float64)
            state[f"{mode}_sums_"] = each.sums if most == 3 else each.with_squares()
        if groups := getattr(self, "groups_", {}):
            state["group_names_"] = names = as_labels([*groups], "groups")
            if names.ndim > 1:
                raise ValueError(
                    "groups must be a single column to save the accumulator, got the "
                    f"name {next(iter(groups))}. Join the columns to one."
                )
            state["groups_"] = [*groups.values()]
        return state

    def _set_state(self, state: dict[str, Any]) -> None:
        cells = {}
        for mode in self._modes():
            place, sums = state[f"{mode}_place_"], state[f"{mode}_sums_"]
            n_rows, n_cells = self._n_rows(mode), self._grid(mode).n_cells
            most = n_rows * n_cells
            is_whole = (place < most).all() and (place == np.floor(place)).all()
            if not is_whole or (np.diff(place) <= 0).any():
                raise ValueError(f"place must be distinct integers less than {most}.")
            if len(sums) not in (3, 5):
                raise ValueError(f"sums must have three or five rows, got {len(sums)}.")
            cells[mode] = Cells(place.astype(np.intp), sums)
        if state["totals_"][0] > 0:
            self._settings_seen = self._settings()
            self.cells_, self.totals_ = cells, state["totals_"]
            self.n_samples_ = int(state["n_samples_"])
            names = state.get("group_names_", np.empty(0)).tolist()
            groups = state.get("groups_", [])
            if len(names) != len(groups):
                raise ValueError(
                    "groups_ must contain an accumulator for each of group_names_, got "
                    f"{len(groups)} and {len(names)}."
                )
            self.groups_ = dict(zip(names, groups, strict=True))
            if any(
                not isinstance(each, type(self)) or each._settings() != self._settings()
                for each in self.groups_.values()
            ):
                raise ValueError("groups_ must be accumulators with equal parameters.")


def _accumulate(empty: CalibrationAccumulator, **chunk: Any) -> CalibrationAccumulator:
    """Return a new accumulator of a chunk, as several threads share the empty one."""
    return clone(empty).update(**chunk)
