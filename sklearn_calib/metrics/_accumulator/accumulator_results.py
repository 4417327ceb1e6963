"""What `CalibrationAccumulator` returns: metrics, bounds, scores and diagrams."""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import (
    BETWEEN_0_AND_1,
    DRAWS,
    StrOptions,
    validate_params,
)
from sklearn_calib._validation.types import Metric, Seed
from sklearn_calib.metrics._accumulator.accumulator_bounds import (
    RANKINGS,
    quantile_bound,
    ranking_bound,
)
from sklearn_calib.metrics._accumulator.accumulator_state import AccumulatorState
from sklearn_calib.metrics._accumulator.cell_draws import CellSample
from sklearn_calib.metrics._accumulator.cell_metrics import (
    check_metric,
    evaluate,
    metric_and_options,
)
from sklearn_calib.metrics._calibration_errors.binned_error import (
    expected_calibration_error,
)
from sklearn_calib.metrics._intervals.bootstrap import METHODS


class AccumulatorResults(AccumulatorState):
    """Results of an accumulator."""

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
        return evaluate(cells, grid, self._n_rows(mode), metric, mode, options)

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
                f"{[each.__name__ for each in RANKINGS]}, got {shown(metric)} with "
                f"{options}. No bound is known for others."
            )
        if self.strategy == "uniform":
            return 0.0
        rows = self.cells_[mode].rows(self._n_rows(mode), grid.n_cells)
        return float(np.mean([quantile_bound(row, grid) for row in rows]))

    @validate_params(
        {
            "confidence_level": BETWEEN_0_AND_1,
            "method": [StrOptions(METHODS)],
            **DRAWS,
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
        self._check_has_seen()
        mode = self._resolve_mode(mode)
        if mode == "classwise":
            raise ValueError(
                'mode must be "top_label" or "positive" for an interval, got '
                '"classwise". The sums of the classes do not determine how they depend '
                "on each other."
            )
        metric, options = metric_and_options(metric, options, mode, self.interval)
        check_metric(metric, mode, options)
        sample = CellSample(self.cells_[mode], self._grid(mode), metric, mode, options)
        return sample.interval(confidence_level, method, n_resamples, random_state)

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

    def reliability_curve(self, *, mode: str | None = None) -> dict[str, Any]:
        """Return the data of a reliability diagram.

        Returns
        -------
        curve : dict
            The arguments of :class:`~sklearn_calib.displays.ReliabilityDisplay`, as in
            `ReliabilityDisplay(**curve).plot()`: edges, counts, frequencies and mean
            confidences of the bins (NaN for empty bins), the calibration error and the
            mode.

        Raises
        ------
        ValueError
            If the mode is "classwise".

        sklearn.exceptions.NotFittedError
            If no samples have been added.
        """
        mode = self._resolve_mode(mode)
        if mode == "classwise":
            raise ValueError(
                'mode must be "top_label" or "positive" for a reliability curve, got '
                '"classwise". Use a separate accumulator with one of these modes.'
            )
        self._check_has_seen()
        grid, cells = self._grid(mode), self.cells_[mode]
        last = cells.place[grid.bin_ends(cells.place, cells.sums[0])[:-1] - 1]
        is_uniform = self.strategy == "uniform"
        edges = grid.uniform_edges() if is_uniform else grid.ends_of(last)[1]
        weight, gap, correct = cells.in_bins(grid)
        filled = np.where(weight > 0, weight, np.nan)
        return {
            "bin_edges": np.r_[0.0, edges, 1.0],
            "counts": weight,
            "prob_true": correct / filled,
            "prob_pred": (correct + gap) / filled,
            "histogram": weight if is_uniform else None,
            "ece": self.compute(mode=mode),
            "mode": mode,
        }

    def _resolve_mode(self, mode: str | None) -> str:
        """Return the mode to evaluate."""
        modes = self._modes()
        if mode is None and len(modes) == 1:
            return modes[0]
        if mode not in modes:
            raise ValueError(
                f"mode must be one of {modes}, the modes of this accumulator, got "
                f"{mode!r}."
            )
        return mode
