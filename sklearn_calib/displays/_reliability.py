"""The reliability diagram, with the histogram of confidences below it."""

import numpy as np

from sklearn_calib._core.binning import bin_sums, gap_norm
from sklearn_calib._core.validation import StrOptions, validate_params
from sklearn_calib.displays._axes import (
    STYLES,
    artists,
    new_axes,
    sequential_colors,
)
from sklearn_calib.displays._history import choose_epochs, recorded_rows
from sklearn_calib.displays._predictions import predictions_of
from sklearn_calib.displays._reliability_artists import (
    LINE,
    decorate,
    draw_bins,
    draw_histogram,
    show_bars_or_lines,
)
from sklearn_calib.metrics._targets import (
    BINS,
    TARGETS,
    check_targets,
    confidence_and_hit,
    resolve_mode,
    resolve_n_bins,
)

# What stands on the axes, for each mode.
WORDS = {
    "top_label": ("Confidence", "Accuracy", "Mean confidence"),
    "positive": (
        "Probability of the positive class",
        "Fraction of positives",
        "Mean probability",
    ),
}
# What is read of an epoch, and how it gets into the history.
RECORDED = ("bin_edges", "bin_weight", "bin_accuracy", "bin_confidence")
WAY_OUT = (
    "Train with callbacks=[RecordBins()], of sklearn_calib.callbacks, or with a loss "
    "that learns from the validation share, such as 'adafocal'."
)


class ReliabilityDisplay:
    """Reliability diagram: how often a classifier is right, given how sure it is.

    The samples are grouped by the probability of their predicted class; for each group
    the diagram shows the accuracy as a bar and its gap to the mean confidence, which
    lies on top of the bar of an overconfident classifier and within that of an
    underconfident one. A calibrated classifier follows the diagonal. The histogram
    under the diagram shows how many samples stand behind each group, and marks the
    accuracy and the mean confidence over all of them.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create one, and
    :meth:`from_history` for one of each of several epochs. The first display on an axes
    is drawn as bars with gaps; with a second one, all of them become lines.

    Parameters
    ----------
    bin_edges : ndarray of shape (n_bins + 1,)
        The edges of the bins, in [0, 1].

    counts : ndarray of shape (n_bins,)
        Number of samples, or sum of their weights, in each bin. Empty bins are not
        drawn.

    prob_true : ndarray of shape (n_bins,)
        Accuracy in each bin; the fraction of positives for the positive class.

    prob_pred : ndarray of shape (n_bins,)
        Mean confidence in each bin; the mean probability of the positive class.

    histogram : ndarray of shape (n_bins,) or None
        The same as `counts` for bins of equal width, which the histogram shows. Without
        it there is none.

    ece : float
        Expected calibration error, which is shown in the legend.

    name : str, default=None
        Name of the classifier, which is shown in the legend.

    mode : {"top_label", "positive"}, default="top_label"
        What the probabilities are of: it chooses the words on the axes.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the reliability diagram.

    histogram_ax_ : matplotlib Axes or None
        Axes with the histogram of confidences.

    figure_ : matplotlib Figure
        Figure that contains both.

    bars_ : matplotlib BarContainer
        The accuracy in each bin; hidden where several classifiers share the axes.

    gaps_ : matplotlib BarContainer
        The gap between accuracy and mean confidence in each bin; hidden likewise.

    line_ : matplotlib Line2D
        Accuracy against mean confidence; hidden where one classifier has the axes.

    See Also
    --------
    sklearn_calib.metrics.expected_calibration_error : The number in the legend.
    sklearn.calibration.CalibrationDisplay : Lines for binary classifiers.

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

    def __init__(
        self,
        bin_edges,
        counts,
        prob_true,
        prob_pred,
        *,
        histogram,
        ece,
        name=None,
        mode="top_label",
    ):
        self.bin_edges = bin_edges
        self.counts = counts
        self.prob_true = prob_true
        self.prob_pred = prob_pred
        self.histogram = histogram
        self.ece = ece
        self.name = name
        self.mode = mode

    @classmethod
    def from_estimator(cls, estimator, X, y, *, name=None, **options):
        """Draw the reliability diagram of a fitted classifier.

        Parameters
        ----------
        estimator : classifier
            A fitted classifier with `predict_proba`.

        X : array-like of shape (n_samples, n_features)
            Data that the classifier was not trained on.

        y : array-like of shape (n_samples,)
            True labels.

        name : str, default=None
            Name in the legend. By default the classifier's class.

        **options
            Further arguments of :meth:`from_predictions`: `n_bins`, `strategy`,
            `mode`, `sample_weight`, `ax`, `color` and `histogram`.

        Returns
        -------
        display : ReliabilityDisplay
            The display, drawn.

        Raises
        ------
        TypeError
            If the estimator has no `predict_proba`.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from sklearn_calib.displays import ReliabilityDisplay
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> nb = GaussianNB().fit(X[:300], y[:300])
        >>> display = ReliabilityDisplay.from_estimator(nb, X[300:], y[300:])
        >>> display.line_.get_label()
        'GaussianNB (ECE 0.030)'
        """
        return cls.from_predictions(y, **predictions_of(estimator, X, name), **options)

    @classmethod
    @validate_params(
        {**TARGETS, **BINS, "mode": [StrOptions(set(WORDS)), None]},
        prefer_skip_nested_validation=True,
    )
    def from_predictions(
        cls,
        y_true,
        y_proba,
        *,
        n_bins=15,
        strategy="uniform",
        mode=None,
        labels=None,
        sample_weight=None,
        name=None,
        ax=None,
        **plot_options,
    ):
        """Draw the reliability diagram of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels, of any kind.

        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities. A 1-d array holds those of the positive class,
            which is the second of two labels.

        n_bins : int or "cube_root", default=15
            Number of bins. Empty bins are not drawn.

        strategy : {"uniform", "quantile"}, default="uniform"
            Bins of equal width, or of equal numbers of samples as far as ties allow.

        mode : {"top_label", "positive"}, default=None
            What is drawn: the probability of the predicted class, or of the positive
            class of two. By default the predicted class for a matrix,
            and the positive class for a 1-d array.

        labels : array-like of shape (n_classes,), default=None
            The label of each column, such as `estimator.classes_`. By default the
            sorted distinct values of `y_true`, which must then hold every class.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples. The histogram shows their sums.

        name : str, default=None
            Name in the legend. By default the legend shows the error only.

        ax : matplotlib Axes, default=None
            Axes to draw on; new ones by default. Axes that an earlier display was
            drawn on show both classifiers, as lines.

        **plot_options
            Further arguments of :meth:`plot`: `color`, `histogram`.

        Returns
        -------
        display : ReliabilityDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If the labels do not match the columns, or `y_proba` holds anything but
            probabilities.

        Examples
        --------
        >>> from sklearn_calib.displays import ReliabilityDisplay
        >>> display = ReliabilityDisplay.from_predictions(
        ...     [0, 1, 1, 1], [0.2, 0.4, 0.6, 0.9], n_bins=2, name="a guess"
        ... )
        >>> display.line_.get_label()
        'a guess (ECE 0.225)'
        """
        proba, codes, weight = check_targets(y_true, y_proba, labels, sample_weight)
        mode = resolve_mode(mode, proba)
        confidence, hit = confidence_and_hit(proba, codes, mode)
        n_bins = resolve_n_bins(n_bins, len(hit), weight)
        options = {"n_bins": n_bins, "sample_weight": weight}
        sums = bin_sums(confidence, hit, strategy=strategy, **options)
        filled = np.where(sums.weight > 0, sums.weight, np.nan)
        display = cls(
            bin_edges=sums.edges,
            counts=sums.weight,
            prob_true=sums.hit / filled,
            prob_pred=sums.confidence / filled,
            histogram=bin_sums(confidence, hit, strategy="uniform", **options).weight,
            ece=float(gap_norm(sums.weight, sums.confidence - sums.hit, "l1")),
            name=name,
            mode=mode,
        )
        return display.plot(ax, **plot_options)

    @classmethod
    def from_history(cls, history, *, epochs=None, ax=None):
        """Draw the reliability diagrams of several epochs of training in one.

        They are lines that get lighter from epoch to epoch, over bins with equal
        numbers of samples of the validation share.

        Parameters
        ----------
        history : skorch.history.History or list of dict
            One dict for each epoch, with `epoch` and the `bin_edges`, `bin_weight`,
            `bin_accuracy` and `bin_confidence` that
            :class:`sklearn_calib.callbacks.RecordBins` records, or a loss that learns
            from the validation share.

        epochs : array-like of int, default=None
            Numbers of the epochs to draw, which start at 1. By default five, from the
            first to the last.

        ax : matplotlib Axes, default=None
            Axes to draw on; new ones by default.

        Returns
        -------
        displays : list of ReliabilityDisplay
            One for each epoch, drawn on the same axes, without a histogram.

        Raises
        ------
        ValueError
            If nothing was recorded, or not in these epochs.

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
        ax = new_axes((4.8, 4.4)) if ax is None else ax
        colors = sequential_colors(len(rows))
        return [
            cls._from_row(row).plot(ax, color=color, histogram=False)
            for row, color in zip(rows, colors, strict=True)
        ]

    @classmethod
    def _from_row(cls, row):
        """Return the display of one epoch, not yet drawn."""
        edges, weight, accuracy, confidence = (np.asarray(row[n]) for n in RECORDED)
        ece = gap_norm(weight, weight * (confidence - accuracy), "l1")
        name = f"Epoch {row['epoch']}"
        options = {"histogram": None, "ece": float(ece), "name": name}
        return cls(edges, weight, accuracy, confidence, **options)

    def plot(self, ax=None, *, name=None, color=None, histogram=True):
        """Draw the diagram.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. The histogram takes the lower part of their place. Axes
            that an earlier display was drawn on show both classifiers, as lines.

        name : str, default=None
            Name in the legend; by default the one given to the constructor.

        color : matplotlib color, default=None
            Color of this classifier; by default the next one of a palette that
            colour-blind readers can tell apart.

        histogram : bool, default=True
            Whether to draw the histogram of confidences. Later displays on the same
            axes follow the first one.

        Returns
        -------
        display : ReliabilityDisplay
            The object itself, with the artists as attributes.
        """
        self.ax_ = new_axes((4.8, 5.6)) if ax is None else ax
        self.figure_ = self.ax_.figure
        n_earlier = len(artists(self.ax_, LINE))
        if not n_earlier:
            histogram = histogram and self.histogram is not None
            decorate(self.ax_, *WORDS[self.mode], histogram=histogram)
        palette_color, marker = STYLES[n_earlier % len(STYLES)]
        color = palette_color if color is None else color
        name = self.name if name is None else name

        ece = f"ECE {self.ece:.3f}"
        label = ece if name is None else f"{name} ({ece})"
        self.bars_, self.gaps_, self.line_ = draw_bins(
            self, color=color, marker=marker, label=label
        )
        self.histogram_ax_ = draw_histogram(self, color=color)
        show_bars_or_lines(self)
        return self
