"""Panels for single bins over the epochs of training; several runs can share them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.types import Array
from sklearn_calib.displays._base.axes import (
    artists,
    check_axes,
    new_figure,
)

# Group id of the line that represents a run in the first panel.
RUN = "run over epochs"
LINE = {"marker": ".", "markersize": 3, "linewidth": 1.2}
# More panels in a row would be too narrow to read.
N_COLUMNS = 5


def choose_bins(bins: ArrayLike | None, n_bins: int) -> list[int]:
    """Return the indices of the bins to show; None chooses three of them."""
    if bins is None:
        return sorted({0, n_bins // 2, n_bins - 1})
    if isinstance(bins, str) and bins == "all":
        return list(range(n_bins))
    chosen = np.atleast_1d(bins)
    is_index = chosen.dtype.kind in "iu" and chosen.ndim == 1
    if is_index and set(chosen.tolist()) <= set(range(n_bins)):
        return chosen.tolist()
    raise ValueError(
        f"bins must be indices from 0 to {n_bins - 1}, or 'all', got {shown(bins)}. "
        "Use bins=None to show the lowest, the middle and the highest bin."
    )


def bin_panels(
    ax: Any,
    bins: list[int],
    n_bins: int,
    *,
    kinds: Sequence[str],
    sharey: bool = False,
) -> Array:
    """Return axes (len(kinds), len(bins)): new ones, those within `ax`, or `ax`.

    `kinds` are the labels of the y-axes. With `sharey`, all panels of a kind have the
    same scale.
    """
    shape = len(kinds), len(bins)
    ends = {0: ", lowest", n_bins - 1: ", highest"}
    titles = [f"Bin {index}{ends.get(index, '')}" for index in bins]
    titles = titles if n_bins > 1 else ["All samples"] * len(bins)
    if np.ndim(ax):
        axes = np.asarray(ax, dtype=object)
        _check_panels(axes, shape, titles)
    else:
        n_columns = min(len(bins), N_COLUMNS)
        n_rows = len(kinds) * -(-len(bins) // n_columns)
        if ax is None:
            size = 2.4 * n_columns + 2, 1.9 * n_rows + 0.6
            figure = new_figure(size, "constrained")
            grid = figure.add_gridspec(n_rows, n_columns)
        else:
            check_axes(ax)
            ax.set_axis_off()
            figure = ax.figure
            # A layout engine makes space for the labels.
            space = {} if figure.get_layout_engine() else {"wspace": 0.4, "hspace": 0.4}
            grid = _grid_within(ax, n_rows, n_columns, **space)
        axes = _add_panels(figure, shape, grid, sharey=sharey)
    if not count_runs(axes):
        _label_panels(axes, titles, kinds)
    return axes


def _grid_within(ax: Any, n_rows: int, n_columns: int, **options: Any) -> Any:
    """Return a grid that covers the area of `ax`."""
    from matplotlib.gridspec import GridSpec, GridSpecFromSubplotSpec

    spec = ax.get_subplotspec()
    if spec is not None:
        return GridSpecFromSubplotSpec(n_rows, n_columns, spec, **options)
    box = ax.get_position()
    sides = {"left": box.x0, "right": box.x1, "bottom": box.y0, "top": box.y1}
    return GridSpec(n_rows, n_columns, ax.figure, **sides, **options)


def _check_panels(axes: Array, shape: tuple[int, int], titles: list[str]) -> None:
    """Raise ValueError unless the given axes are for these bins."""
    if axes.shape != shape:
        raise ValueError(
            f"ax must be one axes or an array of axes of shape {shape} for "
            f"{shape[1]} bins, got shape {axes.shape}. Pass axes_ of a display of the "
            "same bins."
        )
    for panel in axes.flat:
        check_axes(panel)
    earlier = [panel.get_title() for panel in axes[0]]
    if count_runs(axes) and earlier != titles:
        raise ValueError(
            f"ax must be axes of a display of the same bins, {titles}, got "
            f"{earlier}. Pass other bins or other axes."
        )


def _add_panels(
    figure: Any, shape: tuple[int, int], grid: Any, *, sharey: bool
) -> Array:
    """Return new axes in a grid of `figure`; each bin has one column of axes."""
    axes: Any = np.empty(shape, dtype=object)
    for kind, index in np.ndindex(shape):
        line, column = divmod(index, grid.ncols)
        axes[kind, index] = figure.add_subplot(
            grid[line * shape[0] + kind, column],
            sharex=axes[0, 0],
            sharey=axes[kind, 0] if sharey else None,
        )
        axes[kind, index].tick_params(
            labelbottom=_is_lowest(kind, index, shape),
            labelleft=column == 0 or not sharey,
        )
    return axes


def _is_lowest(kind: int, index: int, shape: tuple[int, ...]) -> bool:
    """Return whether the panel is the lowest one of its column."""
    return kind == shape[0] - 1 and index + N_COLUMNS >= shape[1]


def _label_panels(axes: Any, titles: list[str], kinds: Sequence[str]) -> None:
    """Set titles and axis labels."""
    for panel, title in zip(axes[0], titles, strict=True):
        panel.set_title(title, fontsize="medium")
    for kind, index in np.ndindex(axes.shape):
        if index % N_COLUMNS == 0:
            axes[kind, index].set_ylabel(kinds[kind])
        if _is_lowest(kind, index, axes.shape):
            axes[kind, index].set_xlabel("Epoch")
            if axes[kind, index].get_xscale() == "linear":
                axes[kind, index].xaxis.get_major_locator().set_params(integer=True)


def count_runs(axes: Array) -> int:
    """Return the number of runs on the panels."""
    return len(artists(axes[0, 0], RUN))


def show_legend(axes: Array, others: list[Any]) -> None:
    """Show a legend of the runs and of other handles to the right of the panels."""
    runs = artists(axes[0, 0], RUN)
    handles = [run for run in runs if not run.get_label().startswith("_")] + others
    if handles:
        axes[0, : min(axes.shape[1], N_COLUMNS)][-1].legend(
            handles=handles,
            loc="upper left",
            bbox_to_anchor=(1.02, 1),
            borderaxespad=0,
            fontsize="small",
            frameon=False,
        )
