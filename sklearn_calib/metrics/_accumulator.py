"""Calibration errors over chunks of data, from sums that can be merged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._core.binning import gap_error, quantile_ends
from sklearn_calib._core.confidence import top_label_correct
from sklearn_calib._core.inputs import (
    BINS,
    MODES,
    as_columns,
    check_targets,
    confidence_and_correct,
)
from sklearn_calib._core.typing import Floats, Options
from sklearn_calib._core.validation import Interval, StrOptions, validate_params
from sklearn_calib.metrics._accumulator_cells import (
    cell_edges,
    cell_options,
    class_sums,
    factor_of,
    is_empty,
    merge_cells,
    ones_if_zero,
    row_sums,
    sample_totals,
)
from sklearn_calib.metrics._accumulator_state import AccumulatorState
from sklearn_calib.metrics._classwise_error import NORM, check_reduce_bias
from sklearn_calib.metrics._dask_errors import has_dask_arrays, sum_of_chunks


class CalibrationAccumulator(AccumulatorState):
    r"""Calibration errors (such as the ECE) over chunks of data, in constant memory.

    The accumulator stores sums over bins instead of the samples. Accumulators of
    several workers can be merged in any order.

    Parameters
    ----------
    labels : array-like of shape (n_classes,)
        Labels of the columns of `y_proba`, such as `classes_` of the classifier. A
        chunk need not contain all of them.

    n_bins : int, default=15
        Number of bins.

    strategy : {"uniform", "quantile"}, default="uniform"
        Binning strategy: bins of equal width, for which the errors are exact, or bins
        with equal numbers of samples, for which :meth:`error_bound` bounds the
        approximation error.

    mode : {"top_label", "positive", "classwise"}, default="top_label"
        Probability that is evaluated, as in :func:`expected_calibration_error`. Here,
        the default does not depend on the shape of `y_proba`.

    Attributes
    ----------
    sums_ : ndarray of shape (3, n_rows, n_cells)
        Sums of the weights, of confidence minus correctness, and of correctness in each
        cell, in one row, or one for each class with mode "classwise". The cells are the
        bins for "uniform", and 4096 finer cells for "quantile".

    totals_ : ndarray of shape (5,)
        Sums over the samples of weight, correctness, confidence, Brier score and log
        loss.

    factor_ : float
        Power of two by which the weights in these sums are multiplied. It is 1 unless a
        weight is above 1e30, or all weights of a chunk are below 1e-30.

    See Also
    --------
    expected_calibration_error : The same error for arrays in memory.
    classwise_calibration_error : Class-wise error for arrays in memory.

    Notes
    -----
    For "quantile", samples are counted in 4096 cells of equal width in
    :math:`\arcsin \sqrt p`, which are at most 3.8e-4 wide. A sample can be
    in a different bin than in :func:`expected_calibration_error` only if its cell
    contains the edge of a bin. This changes the "l1" error by at most

    .. math:: \frac{2}{n} \sum_e H_e (1 - a_e) + (n_e - H_e) b_e,

    summed over these cells :math:`(a_e, b_e]`, which contain :math:`n_e` samples,
    :math:`H_e` of them correct.

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
    """

    _parameter_constraints = {
        "labels": ["array-like"],
        "n_bins": [Interval(Integral, 1, None, closed="left")],
        "strategy": BINS["strategy"],
        "mode": [StrOptions(MODES)],
    }

    def __init__(
        self,
        *,
        labels: ArrayLike,
        n_bins: int = 15,
        strategy: str = "uniform",
        mode: str = "top_label",
    ) -> None:
        self.labels: Any = labels
        self.n_bins = n_bins
        self.strategy = strategy
        self.mode = mode

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
            If a batch is not a tuple or a list.

        ValueError
            If a batch does not have two or three items, or is invalid.
        """
        new = cls(**params)
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
        self._shape()
        if has_dask_arrays(y_true, y_proba, sample_weight):
            return self.merge(sum_of_chunks(self, y_true, y_proba, sample_weight))
        if is_empty(y_true) and is_empty(y_proba):
            return self
        ones = ones_if_zero(sample_weight)
        proba, codes, weight = check_targets(
            y_true, y_proba, self.labels, sample_weight if ones is None else ones
        )
        columns, cells = as_columns(proba), cell_options(self.n_bins, self.strategy)
        top = top_label_correct(columns, codes)
        if self.mode == "classwise":
            sums = class_sums(columns, codes, weight, cells)
        elif self.mode == "top_label":
            sums = row_sums(*top, weight, cells)
        else:
            evaluated = confidence_and_correct(proba, codes, self.mode)
            sums = row_sums(*evaluated, weight, cells)
        totals = sample_totals(*top, columns, codes, weight)
        if ones is not None:
            return self
        return self._add(sums, totals, factor_of(sample_weight))

    @validate_params(
        {**NORM, "reduce_bias": ["boolean"], "average": [StrOptions({"mean", "sum"})]},
        prefer_skip_nested_validation=True,
    )
    def compute(
        self, *, norm: str = "l1", reduce_bias: bool = False, average: str = "mean"
    ) -> float:
        """Return the calibration error of all samples added so far.

        Parameters
        ----------
        norm : {"l1", "l2", "max"}, default="l1"
            How the gaps of the bins are aggregated, as in
            :func:`expected_calibration_error`.

        reduce_bias : bool, default=False
            Whether to subtract an estimate of the upward bias, as in
            :func:`expected_calibration_error`.

        average : {"mean", "sum"}, default="mean"
            Whether to return the mean or the sum over the classes, for mode
            "classwise".

        Returns
        -------
        error : float
            Calibration error. Lower is better; 0 is best.

        Raises
        ------
        ValueError
            If `reduce_bias` is used with "max".

        sklearn.exceptions.NotFittedError
            If no samples have been added.
        """
        check_reduce_bias(reduce_bias, norm, self.strategy)
        _, sums = self._bins()
        weight, gap, correct = sums
        options: Options = {"reduce_bias": reduce_bias, "average": average}
        return gap_error(weight, gap, correct, norm, **options)

    def error_bound(self) -> float:
        """Return a bound on the approximation error of "quantile" bins, for norm "l1".

        Returns
        -------
        bound : float
            Bound on the absolute difference of :meth:`compute`, with `norm="l1"` and
            `reduce_bias=False`, from the error of all samples at once. It is 0 for
            "uniform".

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If no samples have been added.
        """
        self._check_has_seen()
        if self.strategy == "uniform":
            return 0.0
        edges = cell_edges(self.n_bins, self.strategy)
        bounds = []
        for weight, _, correct in self.sums_.swapaxes(0, 1):
            cell = np.unique(quantile_ends(weight.cumsum(), self.n_bins)) - 1
            missed = weight[cell] - correct[cell]
            moved = correct[cell] * (1 - edges[cell]) + missed * edges[cell + 1]
            bounds.append(2 * moved.sum() / weight.sum())
        return float(np.mean(bounds))

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

    def reliability_curve(self) -> dict[str, Any]:
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
        if self.mode == "classwise":
            raise ValueError(
                'mode must be "top_label" or "positive" for a reliability curve, got '
                '"classwise". Use a separate accumulator with one of these modes.'
            )
        edges, sums = self._bins()
        weight, gap, correct = sums[:, 0]
        filled = np.where(weight > 0, weight, np.nan)
        return {
            "bin_edges": edges[0],
            "counts": weight,
            "prob_true": correct / filled,
            "prob_pred": (correct + gap) / filled,
            "histogram": weight if self.strategy == "uniform" else None,
            "ece": self.compute(),
            "mode": self.mode,
        }

    def _bins(self) -> tuple[list[Floats], Floats]:
        """Return the bin edges of each row, and the sums over bins."""
        self._check_has_seen()
        edges = cell_edges(self.n_bins, self.strategy)
        if self.strategy == "uniform":
            return [edges] * self.sums_.shape[1], self.sums_
        return merge_cells(self.sums_, edges, self.n_bins)
