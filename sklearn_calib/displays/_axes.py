"""What a figure needs from matplotlib: axes, others below or within, and colours.

Nothing is remembered between displays on the same axes: a later one finds what the
earlier ones have drawn by its group id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, apart for colour-blind readers too, without the yellow that
# is lost on white. Beside each a marker, for prints in grey.
STYLES = [
    ("#0072B2", "o"),
    ("#D55E00", "s"),
    ("#009E73", "^"),
    ("#CC79A7", "D"),
    ("#56B4E9", "v"),
    ("#E69F00", "P"),
    ("#000000", "X"),
]


def new_axes(figsize: tuple[float, float]) -> Axes:
    """Return the only axes of a new figure."""
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Displays are drawn with matplotlib, which is not installed. "
            "Install it with: pip install matplotlib"
        ) from error
    _, ax = plt.subplots(figsize=figsize, layout="constrained")
    return ax


def sequential_colors(n_colors: int) -> list[Any]:
    """Return colours from dark to light, the same to colour-blind readers."""
    from matplotlib import colormaps

    # The last part of the map, a yellow, is lost on white.
    return [colormaps["viridis"](0.85 * step) for step in np.linspace(0, 1, n_colors)]


def artists(ax: Any, gid: str) -> list[Any]:
    """Return what displays have drawn on an axes under a group id."""
    return [artist for artist in ax.get_children() if artist.get_gid() == gid]


def find_axes_below(ax: Any, label: str) -> Any:
    """Return the axes that `add_axes_below` made, or None; the label tells them."""
    return next(
        (
            other
            for other in ax.figure.axes
            if other.get_label() == label and other.get_gridspec() is ax.get_gridspec()
        ),
        None,
    )


def add_axes_below(ax: Any, label: str, height_ratio: float) -> Axes:
    """Return new axes under `ax`, with the same x-axis.

    The room is taken from the place of `ax` itself, so that the neighbours in a grid
    of axes stay where they are.
    """
    grid = grid_within(ax, 2, 1, height_ratios=[1, height_ratio], hspace=0.16)
    ax.set_subplotspec(grid[0])
    return ax.figure.add_subplot(grid[1], sharex=ax, label=label)


def grid_within(ax: Any, n_rows: int, n_columns: int, **options: Any) -> Any:
    """Return a grid in the place of `ax`."""
    from matplotlib.gridspec import GridSpec, GridSpecFromSubplotSpec

    place = ax.get_subplotspec()
    if place is not None:
        return GridSpecFromSubplotSpec(n_rows, n_columns, place, **options)
    box = ax.get_position()
    sides = {"left": box.x0, "right": box.x1, "bottom": box.y0, "top": box.y1}
    return GridSpec(n_rows, n_columns, ax.figure, **sides, **options)
