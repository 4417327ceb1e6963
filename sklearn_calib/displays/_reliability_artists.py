"""What a reliability diagram is made of; several of them may share their axes."""

import numpy as np

from sklearn_calib.displays._axes import add_axes_below, artists, find_axes_below

BAR, LINE = "reliability bar", "reliability line"
HISTOGRAM = "confidence histogram"
GAP_COLOR = "#D55E00"
# The lines in the histogram: what came true, and what was predicted.
MARKS = ("-", "--")


def decorate(ax, x_label, y_label, mean_label, *, histogram):
    """Draw what all displays on one axes have in common."""
    from matplotlib.lines import Line2D

    ax.plot([0, 1], [0, 1], ":", color="0.3", zorder=2.5)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel=x_label, ylabel=y_label)
    if not histogram:
        return
    ax.set_xlabel("")
    ax.tick_params(labelbottom=False)
    below = add_axes_below(ax, HISTOGRAM, 0.3)
    below.set(xlabel=x_label, ylabel="Samples")
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
    # It stands in the space between the axes, which is wide enough for it.
    legend.set_in_layout(False)


def draw_bins(display, *, label, color, marker):
    """Draw the bins that hold samples, as bars with gaps and as a line."""
    filled = display.counts > 0
    left, right = display.bin_edges[:-1][filled], display.bin_edges[1:][filled]
    prob_true, prob_pred = display.prob_true[filled], display.prob_pred[filled]
    bins = {"x": left, "width": right - left, "align": "edge"}
    bars = display.ax_.bar(
        height=prob_true, color=color, alpha=0.75, edgecolor="white", **bins
    )
    gaps = display.ax_.bar(
        height=prob_pred - prob_true,
        bottom=prob_true,
        facecolor="none",
        edgecolor=GAP_COLOR,
        hatch="////",
        **bins,
    )
    for patch in [*bars, *gaps]:
        patch.set_gid(BAR)
    style = {"color": color, "marker": marker, "label": label, "gid": LINE}
    (line,) = display.ax_.plot(prob_pred, prob_true, clip_on=False, **style)
    return bars, gaps, line


def draw_histogram(display, *, color):
    """Draw the counts and the means over all samples, and return the axes, if any."""
    ax = find_axes_below(display.ax_, HISTOGRAM)
    if ax is None or display.histogram is None:
        return ax
    counts = display.histogram
    bins = {"edges": np.linspace(0, 1, len(counts) + 1), "color": color}
    ax.stairs(counts, **bins)
    ax.stairs(counts, fill=True, alpha=0.3, gid=BAR, **bins)
    for values, mark in zip((display.prob_true, display.prob_pred), MARKS, strict=True):
        mean = np.nansum(display.counts * values) / display.counts.sum()
        ax.axvline(mean, color=color, linestyle=mark)
    return ax


def show_bars_or_lines(display):
    """Show the bars of one display, or the lines of several, and their legend."""
    lines, bars = artists(display.ax_, LINE), artists(display.ax_, BAR)
    several = len(lines) > 1
    fillings = artists(display.histogram_ax_, BAR) if display.histogram_ax_ else []
    for line in lines:
        line.set_visible(several)
    for bar in bars + fillings:
        bar.set_visible(not several)
    handles = lines if several else [display.bars_, display.gaps_]
    labels = [line.get_label() for line in lines] + ["Gap"] * (not several)
    # Bars may fill the axes up to the top; lines leave a corner free.
    above = {
        "loc": "lower left",
        "bbox_to_anchor": (0, 1),
        "ncols": 2,
        "columnspacing": 1,
        "handlelength": 1.5,
        "frameon": False,
    }
    place = {"loc": "best"} if several else above
    display.ax_.legend(handles, labels, fontsize="small", **place)
