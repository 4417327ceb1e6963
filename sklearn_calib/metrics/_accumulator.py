"""Calibration errors over chunks of data, from sums that can be merged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any, Self

from numpy.typing import ArrayLike

from sklearn_calib._core.inputs import BINS, MODES
from sklearn_calib._core.validation import Interval, StrOptions
from sklearn_calib.metrics._accumulator_chunk import chunk_sums
from sklearn_calib.metrics._accumulator_results import AccumulatorResults


class CalibrationAccumulator(AccumulatorResults):
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
        "mode": [StrOptions(MODES), list, tuple],
    }

    def __init__(
        self,
        *,
        labels: ArrayLike,
        n_bins: int = 15,
        strategy: str = "uniform",
        mode: str | Sequence[str] = "top_label",
    ) -> None:
        self.labels: Any = labels
        self.n_bins = n_bins
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
            True labels.

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
        """
        self._validate_params()
        grids = {mode: self._grid(mode) for mode in self._modes()}
        new = chunk_sums(y_true, y_proba, sample_weight, self.labels, grids)
        return self if new is None else self._add(new)
