"""Calibration errors over chunks of data, from sums that can be merged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any, Self

from numpy.typing import ArrayLike

from sklearn_calib._validation.declarations import BINS, MODES, Interval, StrOptions
from sklearn_calib._validation.samples import check_columns
from sklearn_calib.metrics._accumulator.accumulator_results import AccumulatorResults
from sklearn_calib.metrics._accumulator.dask_errors import (
    has_dask_arrays,
    sum_of_chunks,
)
from sklearn_calib.metrics._binned_sums.sample_sums import chunk_sums, split_by_group


class CalibrationAccumulator(AccumulatorResults):
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

    n_bins : int, default=15
        Number of bins.

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

    factor_ : float
        Power of two by which the weights in these sums are multiplied. It is 1 unless a
        weight is above 1e30, or all weights of a chunk are below 1e-30.

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
            total = sum_of_chunks(
                self,
                y_true=y_true,
                y_proba=y_proba,
                sample_weight=sample_weight,
                groups=groups,
            )
            return self.merge(total)
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
