"""Reliability diagram with a histogram of confidences below it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._numerics.bands import BIN_INTERVALS, CONSISTENCY, bin_band
from sklearn_calib._numerics.binning import (
    bin_index,
    bin_sums,
    end_at_data,
    gap_norm,
    read_bins,
    resolve_n_bins,
)
from sklearn_calib._validation.declarations import (
    BINS,
    CLUSTERS,
    INTERVAL,
    StrOptions,
    validate_params,
)
from sklearn_calib._validation.labels import as_labels
from sklearn_calib._validation.types import Array, Bools, Floats, History, Options, Seed
from sklearn_calib.displays._base.axes import axes_or_new, sequential_colors
from sklearn_calib.displays._base.from_cv_results import FoldFields, FromCVResults
from sklearn_calib.displays._base.from_predictions import (
    EVALUATED,
    confidence_and_correctness,
    read_clusters_of_band,
)
from sklearn_calib.displays._base.recorded_history import choose_epochs, recorded_rows
from sklearn_calib.displays._reliability.diagram import (
    BAR,
    ERROR_BAR,
    FEW,
    ReliabilityDiagram,
    clip_loosely,
    draw_rods,
)
from sklearn_calib.metrics import CalibrationAccumulator

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

# More bars would be too narrow to see, and take seconds to draw.
MOST_BINS = 1000
GAP_COLOR = "#D55E00"
# Bins of fewer samples, whose accuracy says little, are paler by this factor.
FEWEST, PALE = 5, 0.3

# Values read from each epoch, and how to record them.
RECORDED = ("bin_edges", "bin_weight", "bin_accuracy", "bin_confidence")
WAY_OUT = (
    "Train with callbacks=[sklearn_calib.callbacks.RecordBins()], or with a loss that "
    "learns from the validation set, such as 'adafocal'."
)


def _are_few(counts: Floats) -> Bools:
    """Return which bins have so few samples that a line through them would jump.

    Sums of other weights than numbers of samples do not tell.
    """
    few = counts < FEWEST
    is_known = (counts == np.round(counts)).all() and not few.all()
    return few if is_known else np.zeros(len(counts), dtype=bool)


def _check_n_bins(n_bins: int, way_out: str) -> None:
    """Raise ValueError for more bins than a diagram can show."""
    if n_bins > MOST_BINS:
        raise ValueError(
            f"n_bins must be at most {MOST_BINS} for a diagram, which draws each bin, "
            f"got {n_bins}. {way_out}"
        )


def _draw_whiskers(ax: Any, x: Floats, ends: Floats, color: Any) -> Any:
    """Draw thin vertical lines, darker than the bars behind them."""
    from matplotlib.colors import to_rgb

    dark = 0.5 * np.array(to_rgb(color))
    return ax.vlines(x, *ends, colors=[dark], zorder=1.9, gid=ERROR_BAR)


@dataclass(eq=False, repr=False)
class ReliabilityDisplay(ReliabilityDiagram, FromCVResults):
    """Reliability diagram: accuracy against confidence in bins.

    The samples are binned by their confidence, the probability of the predicted class.
    For each bin, the diagram shows the accuracy as a bar, with an interval, and the gap
    between accuracy and mean confidence. The gap lies above the top of the bar where
    the classifier is overconfident, and below it where it is underconfident. A
    calibrated classifier follows the diagonal up to sampling noise.

    The histogram below the diagram shows the number of samples in bins of equal width.
    It marks the accuracy and the mean confidence over all samples.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create one,
    :meth:`from_accumulator` for data that do not fit into memory, and
    :meth:`from_history` to draw several epochs of training. A single display is drawn
    as bars with gaps. Displays that share axes are drawn as lines.

    Parameters
    ----------
    bin_edges : ndarray of shape (n_bins + 1,)
        Edges of the bins, in [0, 1].

    counts : ndarray of shape (n_bins,)
        Number of samples, or sum of their weights, in each bin. Empty bins are not
        drawn.

    prob_true : ndarray of shape (n_bins,)
        Accuracy in each bin; for `mode="positive"`, the fraction of positives.

    prob_pred : ndarray of shape (n_bins,)
        Mean confidence in each bin; for `mode="positive"`, the mean predicted
        probability.

    histogram : ndarray of shape (n_bins,) or None
        Number of samples, or sum of their weights, in bins of equal width. If None, no
        histogram is drawn.

    name : str, default=None
        Name of the classifier, shown in the legend.

    mode : {"top_label", "positive"}, default="top_label"
        Which probability is shown, as in :meth:`from_predictions`. It sets the axis
        labels.

    pos_label : label, default=None
        Label of the positive class, which the axis labels name, or the legend if there
        are curves of other classes on the axes. None for "top_label".

    band : ndarray of shape (2, n_bins) or None, default=None
        Lower and upper end of the interval of each bin; nan in empty bins.

    interval : {"clopper-pearson", "consistency", "simultaneous"} or None, default=None
        Kind of interval, as in :meth:`from_predictions`.

    confidence_level : float or None, default=0.95
        Confidence level of the band, shown in the legend. None means that the band is
        one standard deviation of several folds.

    ece : float
        Expected calibration error (ECE), shown in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the reliability diagram.

    histogram_ax_ : matplotlib Axes or None
        Axes with the histogram of confidences.

    figure_ : matplotlib Figure
        Figure that contains both.

    bars_ : matplotlib BarContainer
        Accuracy in each bin; hidden if several classifiers share the axes.

    gaps_ : matplotlib BarContainer
        Gap between accuracy and mean confidence in each bin; hidden if several
        classifiers share the axes.

    line_ : matplotlib Line2D
        Accuracy against mean confidence; hidden if there is only one classifier. Bins
        of fewer than five samples are pale: markers beside the line, or bars.

    band_ : matplotlib LineCollection or None
        Interval of each bin, a vertical line at its mean confidence.

    See Also
    --------
    ClasswiseReliabilityDisplay : Reliability diagrams of the probability of each class.
    GroupReliabilityDisplay : Reliability diagram of each group of samples.
    CorpReliabilityDisplay : Reliability diagram by isotonic regression, without bins.
    SmoothReliabilityDisplay : Reliability diagram by kernel smoothing, without bins.
    sklearn_calib.metrics.expected_calibration_error : The error in the legend.
    sklearn.calibration.CalibrationDisplay : Calibration curve of a binary classifier.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn_calib.displays import ReliabilityDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> classifier = GaussianNB().fit(X[:900], y[:900])
    >>> display = ReliabilityDisplay.from_estimator(classifier, X[900:], y[900:])
    >>> display.ax_.get_ylabel()
    'Accuracy'
    """

    bin_edges: np.ndarray
    counts: np.ndarray
    prob_true: np.ndarray
    prob_pred: np.ndarray
    _: KW_ONLY
    ece: float

    _scores = (("ECE", "ece"),)
    _fold_options = {"interval": None}
    _fold_fields = FoldFields(
        curve="prob_true",
        shared="bin_edges",
        averaged=("prob_true", "prob_pred"),
        summed=("counts", "histogram"),
        weight=attrgetter("counts"),
        limits=(0, 1),
    )

    @classmethod
    @validate_params(
        {
            **EVALUATED,
            **BINS,
            **CLUSTERS,
            **INTERVAL,
            "interval": [StrOptions(BIN_INTERVALS), None],
        }
    )
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        n_bins: int | str | ArrayLike = 15,
        strategy: str = "uniform",
        interval: str | None = "clopper-pearson",
        confidence_level: float = 0.95,
        n_resamples: int = 1000,
        random_state: Seed = None,
        mode: str | None = None,
        pos_label: Any = None,
        labels: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        r"""Draw the reliability diagram of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels, of any type.

        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities. A 1-d array contains those of the positive class,
            which is the second of the two labels.

        n_bins : int, "cube_root" or array-like of shape (n_edges,), default=15
            Number of bins, at most 1000, or their edges, which increase from 0 to 1;
            "cube_root" uses the cube root of the number of samples, rounded up. Empty
            bins are not drawn. Edges need the default strategy.

        strategy : {"uniform", "quantile"}, default="uniform"
            Binning strategy: bins of equal width, or bins with equal numbers of samples
            as far as ties allow, from the smallest to the largest confidence.

        interval : str or None, default="clopper-pearson"
            Interval to show for each bin: "clopper-pearson", "consistency" or
            "simultaneous". "clopper-pearson" is the exact confidence interval of the
            accuracy [1]_. "consistency" is the interval, around the diagonal, in which
            the accuracy of a calibrated classifier would lie [2]_. Both hold for each
            bin separately (pointwise). "simultaneous" is wider than "consistency": the
            accuracies of all bins of a calibrated classifier would lie in it.

        confidence_level : float, default=0.95
            Confidence level, in (0, 1): of the interval of each bin, or of all
            intervals together with `interval="simultaneous"`.

        n_resamples : int, default=1000
            Number of random draws. Not used with `interval="clopper-pearson"`.

        random_state : int, RandomState instance or None, default=None
            Controls the random draws. Pass an int for reproducible results.

        mode : {"top_label", "positive", "confidence"}, default=None
            Which probability to show: that of the predicted class, or that of the
            positive class of a binary problem. By default, the predicted class for a
            2-d array and the positive class for a 1-d array. With "confidence",
            `y_proba` contains the confidence of each prediction, and `y_true` whether
            it is correct.

        pos_label : label, default=None
            Label of the positive class of a binary problem. It sets the mode to
            "positive"; a 1-d array contains the probabilities of this class. By
            default, the second label.

        labels : array-like of shape (n_classes,), default=None
            Class label of each column, such as `estimator.classes_`. By default, the
            sorted distinct values of `y_true`, which must then contain every class.

        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights. The histogram shows their sums. The intervals are computed
            from the effective number of samples, see Notes.

        clusters : array-like of shape (n_samples,), default=None
            Cluster of each sample, such as the patient, if the samples of a cluster are
            not independent. The effective number of samples then follows from their
            variance [3]_, and the other intervals are not available. By default, all
            samples are independent.

        name : str, default=None
            Name in the legend. By default, the legend shows only the error.

        ax : matplotlib Axes, default=None
            Axes to draw on; by default, those of a new figure. On the axes of an
            earlier display, both classifiers are shown as lines.

        **plot_options
            Further arguments of :meth:`plot`: `color`, `histogram`.

        Returns
        -------
        display : ReliabilityDisplay
            The drawn display.

        Raises
        ------
        ValueError
            If the labels do not match the columns, `y_proba` does not contain
            probabilities, or `pos_label` is not one of two labels.

        Notes
        -----
        With sample weights, the intervals are computed from the effective number of
        samples in each bin, :math:`(\sum_i w_i)^2 / \sum_i w_i^2`. Equal weights do not
        change the intervals, and a weight of 2 does not count as two independent
        samples.

        For "consistency" and "simultaneous", the confidences are fixed, and outcomes
        are drawn from them. With "consistency", the confidence level holds for each bin
        separately: about one in twenty bins of a calibrated classifier lies outside its
        95 % interval, or fewer where bins have few samples. With "simultaneous", the
        ends are quantiles of the same draws with the same smaller tail in all bins, for
        which at most one in twenty draws has a bin outside. If the draws are too few
        for that, the intervals are extrapolated; this is less precise, so do not use
        fewer than 1000 draws.

        References
        ----------
        .. [1] C. J. Clopper and E. S. Pearson, "The Use of Confidence or Fiducial
           Limits Illustrated in the Case of the Binomial", Biometrika 26, 1934.

        .. [2] J. Bröcker and L. A. Smith, "Increasing the Reliability of Reliability
           Diagrams", Weather and Forecasting 22, 2007.

        .. [3] E. L. Korn and B. I. Graubard, "Confidence Intervals for Proportions with
           Small Expected Number of Positive Counts Estimated from Survey Data", Survey
           Methodology 24, 1998.

        Examples
        --------
        >>> from sklearn_calib.displays import ReliabilityDisplay
        >>> display = ReliabilityDisplay.from_predictions(
        ...     [0, 1, 1, 1], [0.2, 0.4, 0.6, 0.9], n_bins=2, name="a guess"
        ... )
        >>> display.line_.get_label()
        'a guess (ECE 0.225)'
        """
        mode, pos_label, evaluated = confidence_and_correctness(
            y_true, y_proba, mode, pos_label, labels, sample_weight
        )
        confidence, correct, weight = evaluated
        n_bins, strategy = read_bins(n_bins, strategy)
        n_bins = resolve_n_bins(n_bins, len(correct), weight)
        _check_n_bins(n_bins, "Use fewer bins, or SmoothReliabilityDisplay.")
        options: Options = {"n_bins": n_bins, "sample_weight": weight}
        sums = bin_sums(confidence, correct, strategy=strategy, **options)
        edges = sums.edges
        if strategy == "quantile":
            seen = confidence if weight is None else confidence[weight > 0]
            edges = end_at_data(edges[1:-1], seen.min(), seen.max())
        filled = np.where(sums.weight > 0, sums.weight, np.nan)
        band = bin_band(
            interval,
            sums.correct / filled,
            evaluated,
            bin_index(confidence, edges[1:-1]),
            clusters=read_clusters_of_band(
                clusters, len(correct), weight, interval, "clopper-pearson"
            ),
            confidence_level=confidence_level,
            n_resamples=n_resamples,
            random_state=random_state,
        )
        display = cls(
            bin_edges=edges,
            counts=sums.weight,
            prob_true=sums.correct / filled,
            prob_pred=sums.confidence / filled,
            histogram=bin_sums(
                confidence, correct, strategy="uniform", **options
            ).weight,
            ece=float(gap_norm(sums.weight, sums.confidence - sums.correct, "l1")),
            name=name,
            mode=mode,
            pos_label=pos_label,
            band=band,
            interval=interval,
            confidence_level=confidence_level,
        )
        return display._draw_on(ax, **plot_options)

    @classmethod
    def from_accumulator(
        cls,
        accumulator: CalibrationAccumulator,
        *,
        interval: str | None = "clopper-pearson",
        confidence_level: float = 0.95,
        n_resamples: int = 1000,
        random_state: Seed = None,
        mode: str | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw the reliability diagram of data that were accumulated in chunks.

        The diagram has the bins of the accumulator. The time does not depend on the
        number of samples.

        Parameters
        ----------
        accumulator : CalibrationAccumulator
            An accumulator with at least one sample, or that of a group in `groups_`.

        interval : str or None, default="clopper-pearson"
            Interval to show for each bin: "clopper-pearson", "consistency" or
            "simultaneous", as in :meth:`from_predictions`.

        confidence_level : float, default=0.95
            Confidence level of the interval of each bin, in (0, 1).

        n_resamples : int, default=1000
            Number of random draws. Not used with "clopper-pearson".

        random_state : int, RandomState instance or None, default=None
            Controls the random draws. Pass an int for reproducible results.

        mode : {"top_label", "positive"}, default=None
            Which probability to show. It can be omitted unless the accumulator has
            several modes.

        name : str, default=None
            Name in the legend. By default, the legend shows only the error.

        ax : matplotlib Axes, default=None
            Axes to draw on; by default, those of a new figure. On the axes of an
            earlier display, both classifiers are shown as lines.

        **plot_options
            Further arguments of :meth:`plot`: `color`, `histogram`.

        Returns
        -------
        display : ReliabilityDisplay
            The drawn display.

        Raises
        ------
        TypeError
            If `accumulator` is not a `CalibrationAccumulator`.

        ValueError
            If the mode is "classwise", or there are more than 1000 bins.

        sklearn.exceptions.NotFittedError
            If the accumulator does not contain any samples.

        Notes
        -----
        With uniform bins, the diagram is that of :meth:`from_predictions` for all
        samples at once. Only the draws of "consistency" differ, by random numbers and
        because samples of nearly the same confidence count as equal. With quantile
        bins, edges and sums are approximate, see
        :class:`~sklearn_calib.metrics.CalibrationAccumulator`.

        Examples
        --------
        >>> from sklearn_calib.displays import ReliabilityDisplay
        >>> from sklearn_calib.metrics import CalibrationAccumulator
        >>> monday, tuesday = (
        ...     CalibrationAccumulator(labels=[0, 1], n_bins=2, mode="positive")
        ...     for _ in range(2)
        ... )
        >>> total = monday.update([0, 1], [0.2, 0.4]) + tuesday.update(
        ...     [1, 1], [0.6, 0.9]
        ... )
        >>> display = ReliabilityDisplay.from_accumulator(total, name="a guess")
        >>> display.line_.get_label()
        'a guess (ECE 0.225)'
        """
        if not isinstance(accumulator, CalibrationAccumulator):
            raise TypeError(
                "accumulator must be a CalibrationAccumulator, got "
                f"{type(accumulator).__name__}. Use from_predictions for arrays."
            )
        n_bins, _ = read_bins(accumulator.n_bins, accumulator.strategy)
        _check_n_bins(n_bins, "Create the accumulator with fewer bins.")
        curve = accumulator.reliability_curve(
            mode=mode,
            interval=interval,
            confidence_level=confidence_level,
            n_resamples=n_resamples,
            random_state=random_state,
        )
        is_positive = curve["mode"] == "positive"
        pos_label = as_labels(accumulator.labels, "labels")[1] if is_positive else None
        display = cls(**curve, name=name, pos_label=pos_label)
        return display.plot(ax, **plot_options)

    @classmethod
    def from_history(
        cls,
        history: History,
        *,
        epochs: ArrayLike | None = None,
        ax: Axes | None = None,
    ) -> list[Self]:
        """Draw the reliability diagrams of several epochs of training on the same axes.

        Each epoch is shown as a line, lighter for later epochs. The bins contain equal
        numbers of samples of the validation set.

        Parameters
        ----------
        history : skorch.history.History or list of dict
            One dict for each epoch, with `epoch`, `bin_edges`, `bin_weight`,
            `bin_accuracy` and `bin_confidence`. They are recorded by
            :class:`sklearn_calib.callbacks.RecordBins`, and by losses that learn from
            the validation set.

        epochs : array-like of int, default=None
            Epochs to draw, starting at 1. By default, five epochs from the first to the
            last.

        ax : matplotlib Axes, default=None
            Axes to draw on; by default, those of a new figure.

        Returns
        -------
        displays : list of ReliabilityDisplay
            One display for each epoch, on the same axes and without a histogram.

        Raises
        ------
        ValueError
            If no bins were recorded, or not in these epochs.

        Examples
        --------
        >>> from sklearn_calib.displays import ReliabilityDisplay
        >>> bins = {"bin_edges": [0, 0.7, 1], "bin_weight": [50, 50]}
        >>> first = {
        ...     "epoch": 1,
        ...     "bin_accuracy": [0.6, 0.7],
        ...     "bin_confidence": [0.6, 0.8],
        ... }
        >>> second = {**first, "epoch": 2, "bin_confidence": [0.6, 0.9]}
        >>> history = [{**bins, **first}, {**bins, **second}]
        >>> displays = ReliabilityDisplay.from_history(history)
        >>> [display.line_.get_label() for display in displays]
        ['Epoch 1 (ECE 0.050)', 'Epoch 2 (ECE 0.100)']
        """
        rows = choose_epochs(recorded_rows(history, RECORDED, WAY_OUT), epochs)
        ax = axes_or_new(ax, (4.8, 4.4))
        colors = sequential_colors(len(rows))
        return [
            cls._from_row(row).plot(ax, color=color, histogram=False)
            for row, color in zip(rows, colors, strict=True)
        ]

    @classmethod
    def _from_row(cls, row: dict[str, Any]) -> Self:
        """Return the display of one epoch without drawing it."""
        edges, weight, accuracy, confidence = (np.asarray(row[n]) for n in RECORDED)
        ece = gap_norm(weight, weight * (confidence - accuracy), "l1")
        return cls(
            edges,
            weight,
            accuracy,
            confidence,
            histogram=None,
            ece=float(ece),
            name=f"Epoch {row['epoch']}",
        )

    def _draw(self, color: Any, **style: Any) -> Line2D:
        """Draw the bins with samples, as bars with gaps and as a line."""
        from matplotlib.colors import to_rgba_array

        ax, filled = self.ax_, self.counts > 0
        few = _are_few(self.counts[filled])
        alpha = np.where(few, PALE, 1)
        left, right = self.bin_edges[:-1][filled], self.bin_edges[1:][filled]
        prob_true, prob_pred = self.prob_true[filled], self.prob_pred[filled]
        bins = {"x": left, "width": right - left, "align": "edge"}
        self.bars_ = ax.bar(
            height=prob_true,
            color=to_rgba_array(color, 0.75 * alpha),
            edgecolor="white",
            **bins,
        )
        self.gaps_ = ax.bar(
            height=prob_pred - prob_true,
            bottom=prob_true,
            facecolor="none",
            edgecolor=to_rgba_array(GAP_COLOR, alpha),
            hatch="////",
            **bins,
        )
        for patch in [*self.bars_, *self.gaps_]:
            patch.set_gid(BAR)
        (line,) = ax.plot(prob_pred[~few], prob_true[~few], color=color, **style)
        clip_loosely(line)
        if few.any():
            pale = {"alpha": PALE, "marker": style["marker"], "color": color}
            points = ax.scatter(prob_pred[few], prob_true[few], gid=FEW, **pale)
            clip_loosely(points)
        if self.band is not None:
            draw = draw_rods if self.interval in CONSISTENCY else _draw_whiskers
            self.band_ = draw(ax, prob_pred, self.band[:, filled], color)
        return line

    def _columns(self) -> dict[str, Array]:
        """Return the bins and what is drawn in each."""
        bins = {"bin_low": self.bin_edges[:-1], "bin_high": self.bin_edges[1:]}
        return bins | super()._columns()

    def _handles(self) -> list[Any]:
        """Return the bars, instead of the hidden line, and the gaps."""
        fullest = np.argmax(self.counts[self.counts > 0])  # never a pale one
        bar, gap = self.bars_[fullest], self.gaps_[fullest]
        return [(bar, self.line_.get_label()), (gap, "Gap")]
