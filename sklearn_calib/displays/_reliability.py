"""The reliability diagram, with the histogram of confidences below it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._core.binning import bin_index, bin_sums, gap_norm
from sklearn_calib._core.inputs import BINS, resolve_n_bins
from sklearn_calib._core.typing import Floats, Options, Seed
from sklearn_calib._core.validation import StrOptions, validate_params
from sklearn_calib.displays._bands import BANDS, bin_band
from sklearn_calib.displays._diagram import BAR, ReliabilityDiagram, draw_rods
from sklearn_calib.displays._predictions import JUDGED, judge
from sklearn_calib.displays._reliability_history import FromHistory

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INTERVALS = {"clopper-pearson", "consistency"}
# More bars than these are not told apart, and take seconds to draw.
MOST_BINS = 1000
GAP_COLOR = "#D55E00"


@dataclass(eq=False, repr=False)
class ReliabilityDisplay(FromHistory, ReliabilityDiagram):
    """Reliability diagram: how often a classifier is right, given how sure it is.

    The samples are grouped by the probability of their predicted class; for each group
    the diagram shows the accuracy as a bar and its gap to the mean confidence, which
    lies on top of the bar of an overconfident classifier and within that of an
    underconfident one. A calibrated classifier follows the diagonal, up to chance, for
    which each group has an interval. The histogram under the diagram shows how many
    samples stand behind each group, and marks the accuracy and the mean confidence over
    all of them.

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

    name : str, default=None
        Name of the classifier, which is shown in the legend.

    mode : {"top_label", "positive"}, default="top_label"
        What the probabilities are of: it chooses the words on the axes.

    band : ndarray of shape (2, n_bins) or None, default=None
        Lower and upper ends of the interval of each bin; nan in empty bins.

    interval : {"clopper-pearson", "consistency"} or None, default=None
        What the band is, as in :meth:`from_predictions`.

    confidence_level : float, default=0.95
        Level of the band, which is shown in the legend.

    ece : float
        Expected calibration error, which is shown in the legend.

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

    band_ : matplotlib LineCollection or None
        The interval of each bin, a vertical line at its mean confidence.

    See Also
    --------
    ClasswiseReliabilityDisplay : The same for the probability of each class.
    CorpReliabilityDisplay : Isotonic regression in the place of bins.
    SmoothReliabilityDisplay : Kernels in the place of bins.
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

    bin_edges: np.ndarray
    counts: np.ndarray
    prob_true: np.ndarray
    prob_pred: np.ndarray
    _: KW_ONLY
    ece: float

    _scores = (("ECE", "ece"),)

    @classmethod
    @validate_params(
        {**JUDGED, **BINS, **BANDS, "interval": [StrOptions(INTERVALS), None]},
        prefer_skip_nested_validation=True,
    )
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        n_bins: int | str = 15,
        strategy: str = "uniform",
        interval: str | None = "clopper-pearson",
        confidence_level: float = 0.95,
        n_resamples: int = 1000,
        random_state: Seed = None,
        mode: str | None = None,
        pos_label: Any = None,
        labels: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        r"""Draw the reliability diagram of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels, of any kind.

        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities. A 1-d array holds those of the positive class,
            which is the second of two labels.

        n_bins : int or "cube_root", default=15
            Number of bins, at most 1000. Empty bins are not drawn.

        strategy : {"uniform", "quantile"}, default="uniform"
            Bins of equal width, or of equal numbers of samples as far as ties allow.

        interval : {"clopper-pearson", "consistency"} or None, default="clopper-pearson"
            What is shown of chance: the exact interval of the accuracy in each bin
            [1]_, around the accuracy; or where the accuracy in the bin of a calibrated
            classifier would be [2]_, around the diagonal.

        confidence_level : float, default=0.95
            Level of the interval of each bin by itself, in (0, 1).

        n_resamples : int, default=1000
            Number of random draws. Used by "consistency" only.

        random_state : int, RandomState instance or None, default=None
            Controls the draws. Pass an int for a repeatable interval.

        mode : {"top_label", "positive"}, default=None
            What is drawn: the probability of the predicted class, or of the positive
            class of two. By default the predicted class for a matrix,
            and the positive class for a 1-d array.

        pos_label : label, default=None
            The positive class of two, which sets the mode to "positive". A 1-d array
            holds its probabilities. By default the second label.

        labels : array-like of shape (n_classes,), default=None
            The label of each column, such as `estimator.classes_`. By default the
            sorted distinct values of `y_true`, which must then hold every class.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples. The histogram shows their sums. The intervals are
            those of the effective number of samples, see Notes.

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
            probabilities, or `pos_label` is none of two labels.

        Notes
        -----
        Weighted samples have the interval of as many samples of equal weight as are as
        informative, :math:`(\sum_i w_i)^2 / \sum_i w_i^2` in each bin. Equal weights
        thus leave it as it is, and a weight of 2 is not two independent samples here.

        For "consistency" hits are drawn from the confidences, which are kept as they
        are. One bin of twenty of a calibrated classifier is outside a 95 % interval, as
        each holds by itself; in small bins fewer are, for their accuracies are few.

        References
        ----------
        .. [1] C. J. Clopper and E. S. Pearson, "The Use of Confidence or Fiducial
           Limits Illustrated in the Case of the Binomial", Biometrika 26, 1934.

        .. [2] J. Bröcker and L. A. Smith, "Increasing the Reliability of Reliability
           Diagrams", Weather and Forecasting 22, 2007.

        Examples
        --------
        >>> from sklearn_calib.displays import ReliabilityDisplay
        >>> display = ReliabilityDisplay.from_predictions(
        ...     [0, 1, 1, 1], [0.2, 0.4, 0.6, 0.9], n_bins=2, name="a guess"
        ... )
        >>> display.line_.get_label()
        'a guess (ECE 0.225)'
        """
        mode, judged = judge(y_true, y_proba, mode, pos_label, labels, sample_weight)
        confidence, hit, weight = judged
        n_bins = resolve_n_bins(n_bins, len(hit), weight)
        if n_bins > MOST_BINS:
            raise ValueError(
                f"n_bins must be at most {MOST_BINS} for a diagram, where each is "
                f"drawn, got {n_bins}. Pass fewer, or use a SmoothReliabilityDisplay."
            )
        options: Options = {"n_bins": n_bins, "sample_weight": weight}
        sums = bin_sums(confidence, hit, strategy=strategy, **options)
        filled = np.where(sums.weight > 0, sums.weight, np.nan)
        band = bin_band(
            interval,
            sums.hit / filled,
            judged,
            bin_index(confidence, sums.edges[1:-1]),
            confidence_level=confidence_level,
            n_resamples=n_resamples,
            random_state=random_state,
        )
        display = cls(
            bin_edges=sums.edges,
            counts=sums.weight,
            prob_true=sums.hit / filled,
            prob_pred=sums.confidence / filled,
            histogram=bin_sums(confidence, hit, strategy="uniform", **options).weight,
            ece=float(gap_norm(sums.weight, sums.confidence - sums.hit, "l1")),
            name=name,
            mode=mode,
            band=band,
            interval=interval,
            confidence_level=confidence_level,
        )
        return display.plot(ax, **plot_options)

    def _draw(self, color: Any, **style: Any) -> None:
        """Draw the bins that hold samples, as bars with gaps and as a line."""
        ax, filled = self.ax_, self.counts > 0
        left, right = self.bin_edges[:-1][filled], self.bin_edges[1:][filled]
        prob_true, prob_pred = self.prob_true[filled], self.prob_pred[filled]
        bins = {"x": left, "width": right - left, "align": "edge"}
        self.bars_ = ax.bar(
            height=prob_true, color=color, alpha=0.75, edgecolor="white", **bins
        )
        self.gaps_ = ax.bar(
            height=prob_pred - prob_true,
            bottom=prob_true,
            facecolor="none",
            edgecolor=GAP_COLOR,
            hatch="////",
            **bins,
        )
        for patch in [*self.bars_, *self.gaps_]:
            patch.set_gid(BAR)
        (self.line_,) = ax.plot(prob_pred, prob_true, color=color, **style)
        if self.band is not None:
            draw = draw_rods if self.interval == "consistency" else _draw_whiskers
            self.band_ = draw(ax, prob_pred, self.band[:, filled], color)

    def _handles(self) -> list[Any]:
        """Return the bars in the place of the hidden line, and the gaps."""
        return [(self.bars_, self.line_.get_label()), (self.gaps_, "Gap")]


def _draw_whiskers(ax: Any, places: Floats, ends: Floats, color: Any) -> Any:
    """Draw thin vertical lines, darker than the bars that they stand on."""
    from matplotlib.colors import to_rgb

    dark = 0.5 * np.array(to_rgb(color))
    style = {"linewidths": 1.2, "zorder": 1.9, "clip_on": False}
    return ax.vlines(places, *ends, colors=[dark], **style)
