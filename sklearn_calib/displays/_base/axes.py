"""Helpers for matplotlib: axes, axes below or within others, and colours.

Displays that share axes have no common state: a later display finds the artists of the
earlier ones by their group id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Place and style of a legend above the axes.
ABOVE: dict[str, Any] = {
    "loc": "lower left",
    "bbox_to_anchor": (0, 1),
    "fontsize": "small",
    "frameon": False,
}

# Label of a calibration gap.
GAP = "Confidence\n- accuracy"

# The palette of Okabe and Ito, which is safe for colour-blind readers, without its
# yellow, which is hard to see on white. Markers distinguish the lines in grey prints.
STYLES = [
    ("#0072B2", "o"),
    ("#D55E00", "s"),
    ("#009E73", "^"),
    ("#CC79A7", "D"),
    ("#56B4E9", "v"),
    ("#E69F00", "P"),
    ("#000000", "X"),
]


def axes_or_new(ax: Any, figsize: tuple[float, float]) -> Axes:
    """Return the given axes, or the axes of a new figure if it is None."""
    if ax is None:
        return new_figure(figsize, "constrained").subplots()
    check_axes(ax)
    return ax


def check_axes(ax: Any) -> None:
    """Raise TypeError for other than the axes of matplotlib."""
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        raise TypeError(
            f"ax must be a matplotlib Axes, got {type(ax).__name__}. Pass one axes, "
            "such as plt.gca(), or ax=None for a new figure."
        )


def new_figure(figsize: tuple[float, float], layout: str) -> Figure:
    """Return a new figure without axes."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Displays require matplotlib, which is not installed. "
            "Install it with: pip install matplotlib"
        ) from error
    return plt.figure(figsize=figsize, layout=layout)


def sequential_colors(n_colors: int) -> list[Any]:
    """Return colours from dark to light that are safe for colour-blind readers."""
    from matplotlib import colormaps

    # The last part of the map is a yellow, which is hard to see on white.
    return [colormaps["viridis"](0.85 * step) for step in np.linspace(0, 1, n_colors)]


def artists(ax: Any, gid: str) -> list[Any]:
    """Return the artists on an axes that have the given group id."""
    return [artist for artist in ax.get_children() if artist.get_gid() == gid]


def named_lines(lines: list[Any]) -> list[Any]:
    """Return the lines with a name; the labels of others begin with an underscore."""
    return [line for line in lines if not line.get_label().startswith("_")]


def band_label(confidence_level: float | None, words: str = "interval") -> str:
    """Return the name of a band in the legend; None is that of several folds."""
    if confidence_level is None:
        return "± 1 standard deviation"
    return f"{100 * confidence_level:g} % {words}"


def curve_style(ax: Any, gid: str, color: Any = None) -> dict[str, Any]:
    """Return the style of the next curve with a group id, for `plot`."""
    n_earlier = len(artists(ax, gid))
    palette_color, marker = STYLES[n_earlier % len(STYLES)]
    return {
        "color": palette_color if color is None else color,
        "marker": marker,
        # Shifted, so that they do not cover those of earlier curves.
        "markevery": ((0.1 + 0.03 * n_earlier) % 0.15, 0.15),
        "markersize": 5,
        "gid": gid,
    }


def mark_class(line: Any, pos_label: Any) -> None:
    """Store the positive class of a curve, for `named_classes`; None has no name."""
    line.positive_class = "" if pos_label is None else f"class {pos_label}"


def named_classes(
    lines: list[Any], labels: list[str] | None = None, separator: str = ", "
) -> tuple[str, list[str]]:
    """Return the end of the axis label and the labels of curves, with their classes.

    The axis label names the class of all curves, or each curve its own if they differ.
    """
    labels = [line.get_label() for line in lines] if labels is None else [*labels]
    names = [line.positive_class for line in lines]
    if len({*names}) == 1:
        return f" of {names[0]}" if names[0] else "", labels
    for index, name in enumerate(names):
        first, *others = labels[index].split("\n")
        named = separator.join(filter(None, [first, name]))
        labels[index] = "\n".join([named, *others])
    return "", labels


def find_axes_below(ax: Any, label: str) -> Any:
    """Return the axes that `add_axes_below` created with this label, or None."""
    return next(
        (
            other
            for other in ax.figure.axes
            if other.get_label() == label and other.get_gridspec() is ax.get_gridspec()
        ),
        None,
    )


def add_axes_below(ax: Any, label: str, height_ratio: float) -> Axes:
    """Return new axes below `ax` that share its x-axis.

    `ax` shrinks to make space for them, so that its neighbours in a grid of axes do not
    move.
    """
    grid = grid_within(ax, 2, 1, height_ratios=[1, height_ratio], hspace=0.16)
    ax.set_subplotspec(grid[0])
    return ax.figure.add_subplot(grid[1], sharex=ax, label=label)


def grid_within(ax: Any, n_rows: int, n_columns: int, **options: Any) -> Any:
    """Return a grid that covers the area of `ax`."""
    from matplotlib.gridspec import GridSpec, GridSpecFromSubplotSpec

    spec = ax.get_subplotspec()
    if spec is not None:
        return GridSpecFromSubplotSpec(n_rows, n_columns, spec, **options)
    box = ax.get_position()
    sides = {"left": box.x0, "right": box.x1, "bottom": box.y0, "top": box.y1}
    return GridSpec(n_rows, n_columns, ax.figure, **sides, **options)
