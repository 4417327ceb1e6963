"""Helpers for matplotlib: axes, axes below or within others, and colours.

Displays that share axes have no common state: a later display finds the artists of the
earlier ones by their group id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sklearn_calib._missing_packages import explain_missing

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
    with explain_missing("A display"):
        from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        raise TypeError(
            f"ax must be a matplotlib Axes, got {type(ax).__name__}. Pass one axes, "
            "such as plt.gca(), or ax=None for a new figure."
        )


def new_figure(figsize: tuple[float, float], layout: str) -> Figure:
    """Return a new figure without axes."""
    with explain_missing("A display"):
        import matplotlib.pyplot as plt
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


def draw_diagonal(ax: Any, gid: str) -> None:
    """Draw the diagonal, also on logarithmic scales."""
    from matplotlib.lines import Line2D

    at = np.append(0, np.geomspace(1e-6, 1))
    # Unlike `plot`, this does not change automatic limits.
    ax.add_artist(Line2D(at, at, linestyle=":", color="0.3", zorder=2.5, gid=gid))


def set_labels(ax: Any, **labels: str) -> None:
    """Set `xlabel` and `ylabel`, except on an axis without tick labels.

    `subplots(sharex=True, sharey=True)` has tick labels at the outer axes only.
    """
    for name, label in labels.items():
        axis = ax.xaxis if name == "xlabel" else ax.yaxis
        axis.set_label_text(label if has_numbers(axis) else "")


def has_numbers(axis: Any) -> bool:
    """Return whether an axis shows tick labels."""
    params = axis.get_tick_params()
    sides = "labelbottom", "labeltop", "labelleft", "labelright"
    return any(params.get(side) for side in sides)


def set_limits(ax: Any, **limits: tuple[float, float]) -> None:
    """Set the limits of `x` and `y`, except those that the user has set.

    Limits that an earlier call has set may change, and those of a shared axis grow.
    """
    for name, limit in limits.items():
        key, axis = f"{name}lim", getattr(ax, f"{name}axis")
        shared = getattr(ax, f"get_shared_{name}_axes")().get_siblings(ax)
        earlier = {other: vars(other).get(f"earlier_{key}") for other in shared}
        is_automatic = getattr(ax, f"get_autoscale{name}_on")()
        if is_automatic or getattr(ax, f"get_{key}")() in earlier.values():
            others = [earlier[other] or limit for other in shared if other is not ax]
            lows, highs = zip(limit, *others, strict=True)
            # A logarithmic scale begins at the smallest positive value.
            ax.set(**{key: axis.limit_range_for_scale(min(lows), max(highs))})
            setattr(ax, f"earlier_{key}", getattr(ax, f"get_{key}")())


def find_axes_below(ax: Any, label: str) -> Any:
    """Return the axes that `add_axes_below` created with this label, or None."""
    others = (other for other in ax.figure.axes if other.get_label() == label)
    return next((other for other in others if other.above is ax), None)


def add_axes_below(ax: Any, label: str, height: str) -> Any:
    """Return new axes below `ax` that share its x-axis, with a relative height.

    `ax` shrinks to make space for them. Both have the same place in a grid of axes, so
    that layouts, `subplots_adjust` and `label_outer` treat them as one.
    """
    from matplotlib import rcParams
    from mpl_toolkits.axes_grid1 import make_axes_locatable

    if earlier := find_axes_below(ax, label):
        # Those of displays that `ax.clear()` has removed.
        ax.tick_params(labelbottom=has_numbers(earlier.xaxis))
        earlier.remove()
    space = 2 * rcParams["font.size"] / 72
    below: Any = make_axes_locatable(ax).append_axes(
        "bottom", height, space, sharex=ax, label=label
    )
    if ax.get_subplotspec():
        below.set_subplotspec(ax.get_subplotspec())
    below.tick_params(labelbottom=has_numbers(ax.xaxis))
    below.yaxis.label.set_visible(has_numbers(ax.yaxis))
    ax.tick_params(labelbottom=False)
    below.above = ax
    return below
