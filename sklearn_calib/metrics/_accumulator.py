"""Calibration of data that come in chunks, from sums that workers can merge."""

import copy
from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from sklearn_calib._core.binning import (
    bin_sums,
    class_bin_sums,
    gap_error,
    quantile_ends,
)
from sklearn_calib._core.confidence import top_label_hits
from sklearn_calib._core.inputs import (
    BINS,
    MODES,
    as_columns,
    check_targets,
    confidence_and_hit,
)
from sklearn_calib._core.validation import Interval, StrOptions, validate_params
from sklearn_calib.metrics._accumulator_cells import (
    N_CELLS,
    cell_edges,
    cell_options,
    check_cells,
    factor_of,
    sample_totals,
)
from sklearn_calib.metrics._classwise_error import NORM, check_reduce_bias


class CalibrationAccumulator(BaseEstimator):
    r"""Calibration errors of any number of samples, in chunks and in constant memory.

    It holds sums over bins, and no sample. What several workers have accumulated can be
    merged, in any order.

    Parameters
    ----------
    labels : array-like of shape (n_classes,)
        The label of each column of the probabilities, such as `classes_` of the
        classifier. A chunk need not hold all of them.

    n_bins : int, default=15
        Number of bins.

    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, for which the errors are exact, or of equal numbers of
        samples, for which they are as near as :meth:`error_bound` says.

    mode : {"top_label", "positive", "classwise"}, default="top_label"
        What is measured, as in :func:`expected_calibration_error`: the probability of
        the predicted class, that of the second of two classes, or those of all. Unlike
        there it does not depend on the shape of the probabilities.

    Attributes
    ----------
    sums_ : ndarray of shape (3, n_rows, n_cells)
        Weight, confidence minus hits, and hits of each cell, for each class with
        "classwise" and else in one row. Cells are the bins for "uniform", and 4096 that
        are finer for "quantile".

    totals_ : ndarray of shape (5,)
        Sums over the samples of weight, hit, confidence, squared distance of the
        probabilities from the label, and surprise at the true class.

    factor_ : float
        Power of two that weights are multiplied by in these sums. It is 1 unless
        weights are above 1e30, or all of those of a chunk below 1e-30.

    See Also
    --------
    expected_calibration_error : The same of arrays that are in memory.
    classwise_calibration_error : The same of every class.

    Notes
    -----
    For "quantile" the cells have the same width in :math:`\arcsin \sqrt p`, which is
    3.8e-4 in the middle and 1.5e-7 at both ends in :math:`p`. A bin ends where a cell
    does, and not within: only samples of the cells that hold an edge can be in another
    bin than in :func:`expected_calibration_error`. Moving samples by one bin changes
    the sum of absolute gaps by at most twice the sum of their :math:`|c - h|`, with the
    confidence :math:`c` and hit :math:`h`; hence the "l1" error by at most

    .. math:: \frac{2}{n} \sum_e H_e (1 - a_e) + (n_e - H_e) b_e,

    over the cells :math:`(a_e, b_e]` that hold an edge, with :math:`n_e` samples and
    :math:`H_e` hits. Where a single value fills such a cell nothing moves, and the
    error is exact although the bound is not zero.

    Sums are 64-bit floats, added up chunk by chunk: at 1e8 samples the error is equal
    to that of one pass to about 1e-12. The smaller the chunks, the more rounding: a
    chunk of 1e4 samples or more costs little time as well.

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

    def __init__(self, *, labels, n_bins=15, strategy="uniform", mode="top_label"):
        self.labels = labels
        self.n_bins = n_bins
        self.strategy = strategy
        self.mode = mode

    def update(self, y_true, y_proba, sample_weight=None):
        """Add a chunk of samples.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels.

        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities. A 1-d array holds those of the positive class,
            which is the second of two labels.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples, not all zero in a chunk.

        Returns
        -------
        self : CalibrationAccumulator
            The object itself.

        Raises
        ------
        ValueError
            If a label is unknown, or `y_proba` holds anything but probabilities, or
            parameters have changed. Nothing of the chunk is added then.
        """
        self._validate_params()
        n_rows = len(self.labels) if self.mode == "classwise" else 1
        check_cells(self.n_bins, n_rows, self.strategy)
        proba, codes, weight = check_targets(
            y_true, y_proba, self.labels, sample_weight
        )
        columns = as_columns(proba)
        top = top_label_hits(columns, codes)
        if self.mode == "classwise":
            sums = self._class_sums(columns, codes, weight)
        elif self.mode == "top_label":
            sums = self._row_sums(*top, weight)
        else:
            sums = self._row_sums(*confidence_and_hit(proba, codes, self.mode), weight)
        totals = sample_totals(*top, columns, codes, weight)
        return self._add(sums, totals, factor_of(sample_weight))

    def merge(self, other):
        """Add all that another accumulator with the same settings has seen.

        Parameters
        ----------
        other : CalibrationAccumulator
            Another accumulator, which stays as it is. It may be empty.

        Returns
        -------
        self : CalibrationAccumulator
            The object itself. `one + other` returns a new one.

        Raises
        ------
        TypeError
            If it is no accumulator.

        ValueError
            If its settings are others, or have changed.
        """
        if not isinstance(other, CalibrationAccumulator):
            raise TypeError(
                "other must be a CalibrationAccumulator, got "
                f"{type(other).__name__}. Pass arrays to update."
            )
        mine, its = self._settings(), other._settings()
        if mine != its:
            raise ValueError(
                f"other must have the settings {mine}, got {its}. Make all parts by "
                "sklearn.base.clone of one accumulator."
            )
        if other._has_seen():
            other._check_unchanged()
            self._add(other.sums_, other.totals_, other.factor_)
        return self

    def __add__(self, other):
        """Return a new accumulator that has seen what both have."""
        return copy.deepcopy(self).merge(other)

    @validate_params(
        {**NORM, "reduce_bias": ["boolean"], "average": [StrOptions({"mean", "sum"})]},
        prefer_skip_nested_validation=True,
    )
    def compute(self, *, norm="l1", reduce_bias=False, average="mean"):
        """Return the calibration error of all samples so far.

        Parameters
        ----------
        norm : {"l1", "l2", "max"}, default="l1"
            How the gaps of the bins are put together, as in
            :func:`expected_calibration_error`.

        reduce_bias : bool, default=False
            Whether to subtract what the noise of the frequencies adds to the gaps.

        average : {"mean", "sum"}, default="mean"
            Mean or sum over the classes, for the mode "classwise".

        Returns
        -------
        error : float
            Calibration error; 0 is best.

        Raises
        ------
        ValueError
            If `reduce_bias` is used with "max".

        sklearn.exceptions.NotFittedError
            If no sample has been seen.
        """
        check_reduce_bias(reduce_bias, norm, self.strategy)
        _, sums = self._bins()
        return gap_error(*sums, norm, reduce_bias=reduce_bias, average=average)

    def error_bound(self):
        """Return how far the "l1" error may be from that of all samples at once.

        Returns
        -------
        bound : float
            Largest difference, rounding left aside, between :meth:`compute` with
            `norm="l1"` and without `reduce_bias`, and the function that has all
            samples. It is 0 for "uniform" bins.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If no sample has been seen.
        """
        self._check_has_seen()
        if self.strategy == "uniform":
            return 0.0
        edges = cell_edges(self.n_bins, self.strategy)
        bounds = []
        for weight, _, hit in self.sums_.swapaxes(0, 1):
            cell = np.unique(quantile_ends(weight.cumsum(), self.n_bins)) - 1
            missed = weight[cell] - hit[cell]
            moved = hit[cell] * (1 - edges[cell]) + missed * edges[cell + 1]
            bounds.append(2 * moved.sum() / weight.sum())
        return float(np.mean(bounds))

    def scores(self):
        """Return means over all samples so far that need no bins.

        Returns
        -------
        scores : dict of str to float
            "accuracy" and "mean_confidence", of the predicted class; "log_loss" and
            "brier_score_loss", which are those of scikit-learn: probabilities of 0 are
            clipped to the resolution of their type for the former, and the latter is
            that of the positive class where there are two classes, and a sum over
            the classes where there are more.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If no sample has been seen.
        """
        self._check_has_seen()
        accuracy, confidence, squares, log_loss = self.totals_[1:] / self.totals_[0]
        return {
            "accuracy": float(accuracy),
            "mean_confidence": float(confidence),
            "brier_score_loss": float(squares / (2 if len(self.labels) == 2 else 1)),
            "log_loss": float(log_loss),
        }

    def reliability_curve(self):
        """Return what a reliability diagram shows.

        Returns
        -------
        curve : dict
            The arguments of :class:`~sklearn_calib.displays.ReliabilityDisplay`, as in
            `ReliabilityDisplay(**curve).plot()`: edges, counts, frequencies and mean
            confidences of the bins, which are nan in empty ones, error and mode.

        Raises
        ------
        ValueError
            If the mode is "classwise".

        sklearn.exceptions.NotFittedError
            If no sample has been seen.
        """
        if self.mode == "classwise":
            raise ValueError(
                'mode must be "top_label" or "positive" for a reliability curve, got '
                '"classwise". Accumulate one probability.'
            )
        edges, sums = self._bins()
        weight, gap, hit = sums[:, 0]
        filled = np.where(weight > 0, weight, np.nan)
        return {
            "bin_edges": edges[0],
            "counts": weight,
            "prob_true": hit / filled,
            "prob_pred": (hit + gap) / filled,
            "histogram": weight if self.strategy == "uniform" else None,
            "ece": self.compute(),
            "mode": self.mode,
        }

    def _has_seen(self):
        """Whether there are sums."""
        return hasattr(self, "sums_")

    def _check_has_seen(self):
        """Refuse to measure nothing."""
        if not self._has_seen():
            raise NotFittedError(
                "update must be called with at least one chunk, or merge with an "
                "accumulator that has seen one, got no samples. Call it first."
            )
        self._check_unchanged()

    def _settings(self):
        """Return the parameters, so that they can be compared."""
        return {**self.get_params(), "labels": np.asarray(self.labels).tolist()}

    def _add(self, sums, totals, factor):
        """Add to the sums, or begin with these, of weights times a factor."""
        if self._has_seen():
            self._check_unchanged()
            common = min(self.factor_, factor)
            mine, its = common / self.factor_, common / factor
            sums = mine * self.sums_ + its * sums
            totals, factor = mine * self.totals_ + its * totals, common
        else:
            self._settings_seen = self._settings()
        self.sums_, self.totals_, self.factor_ = sums, totals, factor
        return self

    def _check_unchanged(self):
        """Refuse to add or to read sums by other settings than they were made with."""
        if self._settings() != self._settings_seen:
            raise ValueError(
                f"parameters must stay what they were, {self._settings_seen}, got "
                f"{self._settings()}. Begin anew, with sklearn.base.clone of this one."
            )

    def _class_sums(self, proba, codes, weight):
        """Return the sums of each class and cell, of shape (3, n_classes, n_cells)."""
        options = {**cell_options(self.n_bins, self.strategy), "sample_weight": weight}
        return np.stack(class_bin_sums(proba, codes, **options))

    def _row_sums(self, confidence, hit, weight):
        """Return the sums of one probability, of shape (3, 1, n_cells)."""
        options = {**cell_options(self.n_bins, self.strategy), "sample_weight": weight}
        sums = bin_sums(confidence, hit, **options)
        return np.stack([sums.weight, sums.confidence - sums.hit, sums.hit])[:, None]

    def _bins(self):
        """Return the edges of the bins of each row, and their sums."""
        self._check_has_seen()
        edges = cell_edges(self.n_bins, self.strategy)
        if self.strategy == "uniform":
            return [edges] * self.sums_.shape[1], self.sums_
        ends = [
            [0, *quantile_ends(row.cumsum(), self.n_bins), N_CELLS]
            for row in self.sums_[0]
        ]
        cumulated = np.pad(self.sums_.cumsum(axis=2), ((0, 0), (0, 0), (1, 0)))
        sums = [np.diff(cumulated[:, row, end]) for row, end in enumerate(ends)]
        return [edges[end] for end in ends], np.stack(sums, axis=1)
