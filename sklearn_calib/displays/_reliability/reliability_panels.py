"""Reliability diagrams of several parts of the data, side by side."""

from __future__ import annotations

from math import ceil, sqrt
from typing import Any, ClassVar, Self

import numpy as np

from sklearn_calib._validation.types import Array
from sklearn_calib.displays._base.axes import (
    artists,
    check_axes,
    named_classes,
    new_figure,
)
from sklearn_calib.displays._base.from_predictions import FromEstimator
from sklearn_calib.displays._reliability.corp_display import CorpReliabilityDisplay
from sklearn_calib.displays._reliability.diagram import LINE, check_histogram
from sklearn_calib.displays._reliability.reliability_display import ReliabilityDisplay
from sklearn_calib.displays._reliability.smooth_display import SmoothReliabilityDisplay

KINDS: dict[str, Any] = {
    "bins": ReliabilityDisplay,
    "corp": CorpReliabilityDisplay,
    "smooth": SmoothReliabilityDisplay,
}
# The title of a panel has no space for the errors of more classifiers.
MOST_ERRORS = 3
TICKS = [0, 0.5, 1]


class ReliabilityPanels(FromEstimator):
    """Base class of displays with a reliability diagram for each part of the data.

    A subclass defines `_headings` and the attributes below.
    """

    displays: list[Any]
    name: str | None
    axes_: Array
    figure_: Any

    # What the panels show, in the plural and as the column of the table, and what to
    # do for axes of others.
    _parts: ClassVar[str]
    _column: ClassVar[str]
    _way_out: ClassVar[str]
    # Whether all histograms have the same scale.
    _has_one_scale: ClassVar[bool] = True

    _values = ("prob_true",)

    def plot(
        self,
        ax: Any = None,
        *,
        name: str | None = None,
        color: Any = None,
        histogram: bool | str = True,
    ) -> Self:
        """Draw the diagrams.

        Parameters
        ----------
        ax : array-like of matplotlib Axes, default=None
            Axes for the panels: the `axes_` of an earlier display with the same panels,
            to show both classifiers, or one axes for each panel. By default, a new
            figure.

        name : str, default=None
            Name in the legend; by default, the name given to the constructor.

        color : matplotlib color, default=None
            Color of the classifier; by default, the next color of a palette that is
            safe for colour-blind readers.

        histogram : True or "log", default=True
            Scale of the histograms of probabilities: linear or logarithmic.

        Returns
        -------
        display : object
            The object itself, with the artists as attributes.
        """
        check_panel_options({"histogram": histogram})
        name = self.name if name is None else name
        axes = self._panels(ax, self._headings())
        for display, panel in zip(self.displays, axes, strict=True):
            display.plot(panel, name=name, color=color, histogram=histogram)
        return self._finish(axes)

    def _headings(self) -> list[str]:
        """Return the title of each panel, without the errors."""
        raise NotImplementedError

    def _labels(self) -> tuple[str, str]:
        """Return the labels of the x-axis and the y-axis."""
        return "Probability", "Frequency"

    def _interval_of(self, _index: int, /) -> str:
        """Return the interval of the error in the title of a panel, if there is one."""
        return ""

    def _finish(self, axes: list[Any]) -> Self:
        """Replace titles, labels and legends of the single panels by common ones."""
        n_columns = _n_columns(len(axes))
        x_label, y_label = self._labels()
        headings = self._headings()
        for index, (panel, display) in enumerate(zip(axes, self.displays, strict=True)):
            below = display.histogram_ax_
            for ax in panel, below:
                if ax.get_legend():
                    ax.get_legend().remove()
                ax.tick_params(labelleft=index % n_columns == 0)
                ax.set(xlabel="", ylabel="")
            # Axes with a common x-axis have common ticks.
            if panel.get_xlim() == (0, 1) and panel.get_xticks().tolist() != TICKS:
                panel.set_xticks(TICKS)
            below.tick_params(labelbottom=index + n_columns >= len(axes))
            if self._has_one_scale and index and len(artists(panel, LINE)) == 1:
                below.sharey(self.displays[0].histogram_ax_)
                below.autoscale_view()
            elif not self._has_one_scale:
                below.tick_params(axis="y", which="both", left=False, labelleft=False)
            interval = self._interval_of(index)
            _write_title(panel, headings[index], display, interval)
        for index in range(0, len(axes), n_columns):
            axes[index].set_ylabel(y_label)
            self.displays[index].histogram_ax_.set_ylabel("Samples")
        for display in self.displays[-n_columns:]:
            display.histogram_ax_.set_xlabel(x_label)
        self.axes_ = np.array(axes, dtype=object)
        self.figure_ = axes[0].figure
        self._show_legend(axes[n_columns - 1])
        return self

    def _columns_of(self, parts: Array) -> dict[str, Array]:
        """Return the columns of all panels, and the part that each row belongs to."""
        tables = [display._columns() for display in self.displays]
        counts = [len(next(iter(table.values()))) for table in tables]
        columns = {self._column: np.repeat(parts, counts)}
        return columns | {
            name: np.concatenate([table[name] for table in tables])
            for name in tables[0]
        }

    def _show_legend(self, panel: Any) -> None:
        """Show a legend of the classifiers, or of the parts of a single diagram."""
        lines = artists(self.axes_[0], LINE)
        names = [_name_in(line.get_label()) for line in lines]
        # The space beside the panels is narrow.
        _, labels = named_classes(lines, names, separator=",\n")
        handles = [*zip(lines, labels, strict=True)]
        if len(lines) == 1:
            first = self.displays[0]
            (bars, _), *others = first._handles()
            handles = [(bars, handles[0][1]), *others, *first._band_handles()]
        handles = [handle for handle in handles if handle[1]]
        if not handles:
            return
        panel.legend(
            *zip(*handles, strict=True),
            loc="upper left",
            bbox_to_anchor=(1.02, 1),
            borderaxespad=0,
            fontsize="small",
            frameon=False,
        )

    @classmethod
    def _panels(cls, ax: Any, headings: list[str]) -> list[Any]:
        """Return a list of axes: new ones with the same scale, or those in `ax`."""
        if ax is None:
            return _new_panels(headings)
        axes = np.ravel(np.asarray(ax, dtype=object)).tolist()
        for panel in axes:
            check_axes(panel)
        if len(axes) != len(headings):
            raise ValueError(
                f"ax must contain one axes for each of {len(headings)} {cls._parts}, "
                f"got {len(axes)}. Use ax=None for a new figure."
            )
        earlier = [panel.get_title().rpartition("\n")[0] for panel in axes]
        if artists(axes[0], LINE) and earlier != headings:
            raise ValueError(
                f"ax must show the same {cls._parts}, {headings}, got {earlier}. "
                f"{cls._way_out}"
            )
        return axes


def check_panel_options(options: dict[str, Any], *others: str) -> None:
    """Raise ValueError for options that each panel sets separately."""
    refused = sorted({*others} & set(options))
    histogram = options.get("histogram", True)
    check_histogram(histogram)
    if not histogram:
        refused = ["histogram", *refused]
    if refused:
        names = " or ".join(["histogram=False", *others])
        raise ValueError(
            f"options must not contain {names}, got {refused}. Leave them out: each "
            "panel sets them."
        )


def _name_in(label: str) -> str:
    """Return the classifier's name in the label of a line, without the errors."""
    name, is_found, _ = label.replace("\n", " (").rpartition(" (")
    return name if is_found else ""


def _n_columns(n_panels: int) -> int:
    """Return the number of panels in a row."""
    return n_panels if n_panels < 5 else ceil(sqrt(n_panels))


def _new_panels(headings: list[str]) -> list[Any]:
    """Return a list of new axes with the same scale, and space for their titles."""
    n_panels, n_lines = len(headings), 1 + headings[0].count("\n")
    n_columns = _n_columns(n_panels)
    n_rows = -(-n_panels // n_columns)
    title = 0.16 * (n_lines - 1)
    width, height = 2.3 * n_columns + 2.5, (2.9 + title) * n_rows + 0.4
    # A layout engine would give the panels different sizes.
    figure = new_figure((width, height), "none")
    sides = {"left": 0.8 / width, "right": 1 - 1.9 / width}
    sides |= {"bottom": 0.5 / height, "top": 1 - (0.5 + title) / height}
    grid = figure.add_gridspec(
        n_rows, n_columns, wspace=0.2, hspace=0.22 + title / 2.4, **sides
    )
    axes: list[Any] = []
    for index in range(n_panels):
        first = axes[0] if axes else None
        spec = grid[divmod(index, n_columns)]
        axes.append(figure.add_subplot(spec, sharex=first, sharey=first))
    return axes


def _write_title(panel: Any, heading: str, display: Any, interval: str) -> None:
    """Set the title of a panel: what it shows, and the error of each classifier."""
    word, attribute = display._scores[0]
    value = f"{getattr(display, attribute):.3f}"
    n_classifiers, errors = len(artists(panel, LINE)), f"{word} {value}{interval}"
    if n_classifiers > 1:
        # The title is too narrow for the intervals of several classifiers.
        errors = panel.get_title().rpartition("\n")[2].partition(" [")[0]
        errors += f", {value}" if word in errors.split() else f", {word} {value}"
    if n_classifiers > MOST_ERRORS:
        errors = ""
    panel.set_title(f"{heading}\n{errors}", fontsize="medium")
