"""Base class of reliability diagrams, several of which can share axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from sklearn_calib._numerics.binning import bin_sums
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.types import Array, Floats, Weights
from sklearn_calib.displays._base.axes import (
    ABOVE,
    STYLES,
    add_axes_below,
    artists,
    axes_or_new,
    band_label,
    draw_diagonal,
    find_axes_below,
    mark_class,
    named_classes,
    named_lines,
    set_labels,
    set_limits,
)
from sklearn_calib.displays._base.from_predictions import FromEstimator, band_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

BAR, LINE, DIAGONAL = "reliability bar", "reliability line", "diagonal"
FEW = "reliability of few samples"
ERROR_BAR = "reliability error bar"
HISTOGRAM = "confidence histogram"
# The error bars of more classifiers would hide each other.
MOST_ERROR_BARS = 2
# Number of bins of the histogram where the diagram itself has no bins.
N_BINS = 25
# Line styles in the histogram: for the accuracy and for the mean confidence.
MARKS: Sequence[Any] = ("-", "--")
# Axis labels of each mode.
WORDS = {
    "top_label": ("Confidence", "Accuracy", "Mean confidence"),
    "positive": (
        "Predicted probability",
        "Fraction of positives",
        "Mean probability",
    ),
}
# Name of each kind of band in the legend.
BAND_WORDS: dict[str | None, str] = {
    "bootstrap": "interval",
    "clopper-pearson": "interval",
    "consistency": "if calibrated",
    "simultaneous": "if calibrated, as a whole",
}


@dataclass(eq=False, repr=False, kw_only=True)
class ReliabilityDiagram(FromEstimator):
    """Base class of reliability diagrams with a histogram of confidences below.

    A subclass has the attributes `prob_pred`, `prob_true`, and `counts` unless it
    overrides `_means`. Its method `_draw` draws it and returns the line.
    """

    histogram: np.ndarray | None
    name: str | None = None
    mode: str = "top_label"
    pos_label: Any = None
    band: np.ndarray | None = None
    interval: str | None = None
    confidence_level: float | None = 0.95

    # The scores in the legend, as pairs of label and attribute, and the format.
    _scores: ClassVar[tuple[tuple[str, str], ...]]
    _label: ClassVar[str] = "{name} ({scores})"
    # The columns of `frame` apart from the band.
    _points: ClassVar[tuple[str, ...]] = ("prob_pred", "prob_true", "counts")
    _values = ("prob_true",)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        color: Any = None,
        histogram: bool | str = True,
    ) -> Self:
        """Draw the diagram.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; by default, those of a new figure. The histogram takes the
            lower part of their area. On the axes of an earlier display, both
            classifiers are shown as lines.

        name : str, default=None
            Name in the legend; by default, the name given to the constructor.

        color : matplotlib color, default=None
            Color of the classifier; by default, the next color of a palette that is
            safe for colour-blind readers.

        histogram : bool or "log", default=True
            Whether to draw the histogram of confidences; "log" draws it on a
            logarithmic scale, which shows bins with few samples. On shared axes, the
            setting of the first display applies.

        Returns
        -------
        display : object
            The object itself, with the artists as attributes.

        Raises
        ------
        ValueError
            If `histogram` is unknown.

        Notes
        -----
        The intervals of bins are drawn for at most two displays on the same axes. The
        legend is above the axes; figures with ``layout="constrained"`` make space for
        it.
        """
        check_histogram(histogram)
        self.ax_ = axes_or_new(ax, (4.8, 5.6))
        self.figure_ = self.ax_.figure
        n_earlier = len(artists(self.ax_, LINE))
        if not n_earlier:
            self._decorate(False if self.histogram is None else histogram)
        palette_color, marker = STYLES[n_earlier % len(STYLES)]
        color = palette_color if color is None else color
        name = self.name if name is None else name
        label = ", ".join(
            f"{word} {getattr(self, at):.3f}" for word, at in self._scores
        )
        if name is not None:
            label = self._label.format(name=name, scores=label)
        self.band_: Any = None
        self.line_ = self._draw(color, marker=marker, label=label, gid=LINE)
        mark_class(self.line_, self.pos_label)
        self._draw_histogram(color)
        self._arrange()
        return self

    def _decorate(self, histogram: bool | str) -> None:
        """Draw the diagonal, the labels and the axes of the histogram."""
        from matplotlib.lines import Line2D
        from matplotlib.ticker import NullFormatter

        _, y_label, mean_label = WORDS[self.mode]
        draw_diagonal(self.ax_, DIAGONAL)
        set_labels(self.ax_, ylabel=y_label)
        if not histogram:
            return
        below = add_axes_below(self.ax_, HISTOGRAM, "30%")
        below.set_ylabel("Samples")
        if histogram == "log":
            below.set_yscale("log")
            # Labels of the minor ticks would overlap in small axes.
            below.yaxis.set_minor_formatter(NullFormatter())
            # The least count is above the bottom of the axes.
            below.margins(y=0.15)
        legend = below.legend(
            [Line2D([], [], color="0.3", linestyle=mark) for mark in MARKS],
            [y_label, mean_label],
            loc="lower right",
            bbox_to_anchor=(1, 1),
            ncols=2,
            borderaxespad=0,
            columnspacing=1,
            handlelength=1.5,
            fontsize="small",
            frameon=False,
        )
        # The space between the axes is wide enough for the legend.
        legend.set_in_layout(False)

    def _draw(self, color: Any, **style: Any) -> Line2D:
        """Draw what a subclass shows, and return the line for several classifiers."""
        raise NotImplementedError

    def _draw_curve(self: Any, color: Any, *, markevery: Any, **style: Any) -> Line2D:
        """Draw a curve and its band; the band of a single point is a vertical line."""
        x, y = self.prob_pred, self.prob_true
        (line,) = self.ax_.plot(x, y, color=color, markevery=markevery, **style)
        clip_loosely(line)
        if self.band is not None and len(x) > 1:
            style = {"color": color, "alpha": 0.2, "linewidth": 0}
            self.band_ = self.ax_.fill_between(x, *self.band, **style)
        elif self.band is not None:
            self.band_ = draw_rods(self.ax_, x, self.band, color)
        return line

    def _draw_histogram(self, color: Any) -> None:
        """Draw the counts and the means over all samples, if there is an axes."""
        from matplotlib.colors import to_rgba

        self.histogram_ax_ = ax = find_axes_below(self.ax_, HISTOGRAM)
        if ax is None or self.histogram is None:
            return
        edges = np.linspace(0, 1, len(self.histogram) + 1)
        # Filled stairs have a line of width 0 by default; None is the usual width.
        style = {"color": to_rgba(color, 0.3), "edgecolor": color, "linewidth": None}
        ax.stairs(self.histogram, edges, fill=True, gid=BAR, **style)
        for mean, mark in zip(self._means(), MARKS, strict=True):
            ax.axvline(mean, color=color, linestyle=mark)

    def _columns(self) -> dict[str, Array]:
        """Return what is drawn at each confidence."""
        names = self._points
        return {name: getattr(self, name) for name in names} | band_columns(self.band)

    def _means(self: Any) -> Sequence[float]:
        """Return the accuracy and the mean confidence over all samples."""
        values = self.prob_true, self.prob_pred
        return [np.nansum(self.counts * row) / self.counts.sum() for row in values]

    def _arrange(self) -> None:
        """Show the bars of one display, or the lines of several, and their legend."""
        set_limits(self.ax_, x=(0, 1), y=(0, 1))
        lines, bars = artists(self.ax_, LINE), artists(self.ax_, BAR)
        several = len(lines) > 1
        for line in lines + artists(self.ax_, FEW):
            line.set_visible(several or not bars)
        for bar in artists(self.ax_, ERROR_BAR):
            bar.set_visible(len(lines) <= MOST_ERROR_BARS)
        for bar in bars:
            bar.set_visible(not several)
        for bar in artists(self.histogram_ax_, BAR) if self.histogram_ax_ else []:
            bar.set_fill(not several)
        of_class, labels = named_classes(named_lines(lines))
        # Lines of different classes are named in the legend instead.
        if not several or (lines[0].positive_class and not of_class):
            x_label = WORDS["positive" if several else self.mode][0] + of_class
            set_labels(self.histogram_ax_ or self.ax_, xlabel=x_label)
        handles, n_columns = [*zip(named_lines(lines), labels, strict=True)], 1
        if not several:
            first, *others = self._handles()
            # The band goes below the first entry, which may be long.
            handles = [first, *self._band_handles(), *others]
            n_columns = 1 + len(others)
        # Bars and lines may fill the axes, so the legend is above them.
        self.ax_.legend(
            *zip(*handles, strict=True),
            ncols=n_columns,
            columnspacing=1,
            handlelength=1.5,
            **ABOVE,
        )

    def _handles(self) -> list[Any]:
        """Return handles and labels for the legend of a display alone on its axes."""
        return [(self.line_, self.line_.get_label())]

    def _band_handles(self) -> list[Any]:
        """Return handles and labels of the band, if there is one."""
        if self.band_ is None:
            return []
        words = BAND_WORDS.get(self.interval, "")
        return [(self.band_, band_label(self.confidence_level, words))]


def check_histogram(histogram: bool | str) -> None:
    """Raise ValueError unless the option is known."""
    if histogram not in (True, False, "log"):
        raise ValueError(
            f'histogram must be True, False or "log", got {shown(histogram)}. Use '
            '"log" for a logarithmic scale.'
        )


def count_confidences(confidence: Floats, correct: Array, weight: Weights) -> Floats:
    """Return the histogram of confidences: counts, or sums of weights."""
    return bin_sums(confidence, correct, n_bins=N_BINS, sample_weight=weight).weight


def clip_loosely(artist: Any) -> None:
    """Clip an artist a little outside of its axes: markers at 0 and 1 remain whole."""
    from matplotlib.transforms import Bbox, TransformedBbox

    box = Bbox([[-0.02, -0.02], [1.02, 1.02]])
    artist.set_clip_box(TransformedBbox(box, artist.axes.transAxes))


def draw_rods(ax: Any, x: Floats, ends: Floats, color: Any) -> Any:
    """Draw wide and pale vertical lines below the lines of the classifiers."""
    from matplotlib import rcParams
    from matplotlib.colors import to_rgb
    from matplotlib.patheffects import withStroke

    color = np.array(to_rgb(color))
    width = 3 * rcParams["lines.linewidth"]
    rim = [withStroke(linewidth=width + 1.5, foreground=0.5 * color)]
    style = {"linewidths": width, "zorder": 1.8, "path_effects": rim, "snap": False}
    style["gid"] = ERROR_BAR
    pale = 0.25 * color + 0.75
    return ax.vlines(x, *ends, colors=[pale], **style)
