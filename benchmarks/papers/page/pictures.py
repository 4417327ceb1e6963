"""Pictures of the comparison with the papers."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_rgba
from matplotlib.ticker import LogLocator, NullFormatter

BELOW = {"r-aurc-entropy", "mbls"}  # labels that would lie on those of neighbours


def draw_ratios(compared, titles, path):
    """Plot the ratios to cross-entropy here against those in the papers."""
    figure, axes = plt.subplots(figsize=(9, 7), layout="constrained")
    # Papers quote each other: points of one loss that are close get one label.
    places = compared.assign(place=(5 * np.log10(compared["theirs"])).round())
    is_labelled = places.duplicated(["loss", "place"], keep="last")
    for index, (paper, part) in enumerate(compared.groupby("paper", sort=False)):
        color = f"C{index}"
        axes.errorbar(
            part["theirs"],
            part["ours"],
            yerr=[part["ours"] - part["low"], part["high"] - part["ours"]],
            fmt="o",
            color=color,
            ecolor=to_rgba(color, 0.4),
            label=titles[paper],
        )
        for row in part[~is_labelled[part.index]].itertuples():
            axes.annotate(
                row.loss,
                (row.theirs, row.ours),
                xytext=(4, -10 if row.loss in BELOW else 4),
                textcoords="offset points",
                fontsize=7,
                color=color,
            )
    axes.axline((1, 1), (2, 2), color="grey", linewidth=1)
    axes.axhline(1, color="grey", linewidth=0.5, linestyle=":")
    axes.axvline(1, color="grey", linewidth=0.5, linestyle=":")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="calibration error in the paper, ratio to cross-entropy",
        ylabel="calibration error here, ratio to cross-entropy (95 % interval)",
    )
    for axis in (axes.xaxis, axes.yaxis):
        _plain_ticks(axis)
    axes.legend(title="paper", loc="upper left")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _plain_ticks(axis):
    """Label a logarithmic axis with plain numbers."""
    axis.set_major_locator(LogLocator(subs=[1, 2, 5]))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def draw_updates(updates, path):
    """Plot the ECE of AdaFocal against the number of updates of gamma."""
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for training, part in updates.groupby("training", sort=False):
        axes.errorbar(
            part["updates"],
            part["ratio"],
            yerr=[part["ratio"] - part["low"], part["high"] - part["ratio"]],
            fmt="o-",
            capsize=3,
            label=training,
        )
    axes.axhline(1, color="grey", linewidth=0.5, linestyle=":")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="updates of gamma during training",
        ylabel="ECE, ratio to cross-entropy",
    )
    for axis in (axes.xaxis, axes.yaxis):
        _plain_ticks(axis)
    axes.legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_errors(results, titles, path):
    """Plot the ECE of each loss on each data set, with and without a temperature."""
    losses = list(dict.fromkeys(results["loss"]))
    names = [name for name in titles if name in set(results["data"])]
    figure, panels = plt.subplots(
        1, len(names), figsize=(10, 5), sharey=True, layout="constrained", squeeze=False
    )
    for axes, name in zip(panels[0], names, strict=True):
        for offset, fitted in ((-0.2, "none"), (0.2, "temperature")):
            part = results[(results["data"] == name) & (results["map"] == fitted)]
            groups = part.groupby("loss")["ece"]
            mean, deviation = (
                values.reindex(losses) for values in (groups.mean(), groups.std())
            )
            axes.barh(
                np.arange(len(losses)) + offset,
                mean,
                height=0.4,
                xerr=deviation.fillna(0),
                label={"none": "as trained"}.get(fitted, "after temperature scaling"),
            )
        axes.set(title=titles[name], xlabel="ECE in percent")
    panels[0, 0].set_yticks(range(len(losses)), losses)
    panels[0, 0].invert_yaxis()
    figure.legend(
        *panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2
    )
    figure.savefig(path, dpi=110)
    plt.close(figure)
