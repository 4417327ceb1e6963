"""What reliability diagrams are made of; several of them may share their axes."""

import numpy as np

from sklearn_calib.displays._axes import (
    STYLES,
    add_axes_below,
    artists,
    find_axes_below,
    new_axes,
)

BAR, LINE = "reliability bar", "reliability line"
HISTOGRAM = "confidence histogram"
GAP_COLOR = "#D55E00"
# The lines in the histogram: what came true, and what was predicted.
MARKS = ("-", "--")
# What stands on the axes, for each mode.
WORDS = {
    "top_label": ("Confidence", "Accuracy", "Mean confidence"),
    "positive": (
        "Probability of the positive class",
        "Fraction of positives",
        "Mean probability",
    ),
}
# What a band shows, in the legend.
BAND_WORDS = {
    "bootstrap": "interval",
    "clopper-pearson": "interval",
    "consistency": "if calibrated",
}


def prepare_axes(display, ax, color, *, histogram):
    """Give a display its axes and its figure, and return a color and a marker."""
    display.ax_ = new_axes((4.8, 5.6)) if ax is None else ax
    display.figure_ = display.ax_.figure
    n_earlier = len(artists(display.ax_, LINE))
    if not n_earlier:
        decorate(display.ax_, *WORDS[display.mode], histogram=histogram)
    palette_color, marker = STYLES[n_earlier % len(STYLES)]
    return palette_color if color is None else color, marker


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
    ax, filled = display.ax_, display.counts > 0
    left, right = display.bin_edges[:-1][filled], display.bin_edges[1:][filled]
    prob_true, prob_pred = display.prob_true[filled], display.prob_pred[filled]
    bins = {"x": left, "width": right - left, "align": "edge"}
    display.bars_ = ax.bar(
        height=prob_true, color=color, alpha=0.75, edgecolor="white", **bins
    )
    display.gaps_ = ax.bar(
        height=prob_pred - prob_true,
        bottom=prob_true,
        facecolor="none",
        edgecolor=GAP_COLOR,
        hatch="////",
        **bins,
    )
    for patch in [*display.bars_, *display.gaps_]:
        patch.set_gid(BAR)
    style = {"color": color, "marker": marker, "label": label, "gid": LINE}
    (display.line_,) = ax.plot(prob_pred, prob_true, clip_on=False, **style)
    display.band_ = None
    if display.band is not None:
        draw = draw_rods if display.interval == "consistency" else draw_whiskers
        display.band_ = draw(ax, prob_pred, display.band[:, filled], color)


def draw_whiskers(ax, places, ends, color):
    """Draw thin vertical lines, darker than the bars that they stand on."""
    from matplotlib.colors import to_rgb

    dark = 0.5 * np.array(to_rgb(color))
    style = {"linewidths": 1.2, "zorder": 1.9, "clip_on": False}
    return ax.vlines(places, *ends, colors=[dark], **style)


def draw_rods(ax, places, ends, color):
    """Draw wide and pale vertical lines under those of the classifiers."""
    from matplotlib.colors import to_rgb
    from matplotlib.patheffects import withStroke

    color = np.array(to_rgb(color))
    rim = [withStroke(linewidth=6.5, foreground=0.5 * color)]
    style = {"linewidths": 5, "zorder": 1.8, "path_effects": rim, "snap": False}
    pale = 0.25 * color + 0.75
    return ax.vlines(places, *ends, colors=[pale], clip_on=False, **style)


def draw_curve(display, x, y, *, label, color, marker, markevery):
    """Draw a curve and its band, which is a line where there is but one point."""
    ax, markers = display.ax_, {"marker": marker, "markevery": markevery}
    style = {"color": color, "label": label, "gid": LINE, "markersize": 5}
    (display.line_,) = ax.plot(x, y, clip_on=False, **markers, **style)
    display.band_ = None
    if display.band is not None and len(x) > 1:
        style = {"color": color, "alpha": 0.2, "linewidth": 0}
        display.band_ = ax.fill_between(x, *display.band, **style)
    elif display.band is not None:
        display.band_ = draw_rods(ax, x, display.band, color)


def draw_histogram(display, means, *, color):
    """Draw the counts and the means over all samples, and return the axes, if any."""
    ax = find_axes_below(display.ax_, HISTOGRAM)
    if ax is None or display.histogram is None:
        return ax
    counts = display.histogram
    bins = {"edges": np.linspace(0, 1, len(counts) + 1), "color": color}
    ax.stairs(counts, **bins)
    ax.stairs(counts, fill=True, alpha=0.3, gid=BAR, **bins)
    for mean, mark in zip(means, MARKS, strict=True):
        ax.axvline(mean, color=color, linestyle=mark)
    return ax


def band_label(display):
    """Return the words for the band of a display."""
    return f"{100 * display.confidence_level:g} % {BAND_WORDS[display.interval]}"


def arrange(display, alone):
    """Show the bars of one display, or the lines of several, and their legend.

    `alone` are handles and labels of a display that has the axes for itself.
    """
    lines, bars = artists(display.ax_, LINE), artists(display.ax_, BAR)
    several = len(lines) > 1
    fillings = artists(display.histogram_ax_, BAR) if display.histogram_ax_ else []
    for line in lines:
        line.set_visible(several or not bars)
    for bar in bars + fillings:
        bar.set_visible(not several)
    n_columns = len(alone)
    if several:
        alone = [(line, line.get_label()) for line in lines]
    elif display.band_ is not None:
        # It is under the first, which may be long.
        alone = [alone[0], (display.band_, band_label(display)), *alone[1:]]
    # Bars may fill the axes up to the top; lines leave a corner free.
    above = {
        "loc": "lower left",
        "bbox_to_anchor": (0, 1),
        "ncols": n_columns,
        "columnspacing": 1,
        "handlelength": 1.5,
        "frameon": False,
    }
    place = {"loc": "best"} if several else above
    handles, labels = zip(*alone, strict=True)
    display.ax_.legend(handles, labels, fontsize="small", **place)
