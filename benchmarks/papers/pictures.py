"""The pictures of the results beside the papers' numbers."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter


def draw_ratios(compared, path):
    """Draw our ratios over the papers' ones, of the errors of calibration."""
    shown = compared[compared["metric"].str.endswith("ece")]
    figure, axes = plt.subplots(figsize=(6, 5), layout="constrained")
    for index, (paper, part) in enumerate(shown.groupby("paper", sort=False)):
        for fitted, marker in (("none", "o"), ("lowest", "o"), ("temperature", "x")):
            points = part[part["map"].str.split(" ").str[0] == fitted]
            label = paper if marker == "o" and len(points) else None
            axes.scatter(
                points["theirs"],
                points["ours"],
                marker=marker,
                color=f"C{index}",
                alpha=0.7,
                label=label,
            )
    axes.axline((1, 1), (2, 2), color="grey", linewidth=1)
    axes.axhline(1, color="grey", linewidth=0.5, linestyle=":")
    axes.axvline(1, color="grey", linewidth=0.5, linestyle=":")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="paper's ratio to cross-entropy",
        ylabel="ratio here",
        title="Calibration errors; crosses: after a temperature",
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=[1, 2, 5]))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())
    axes.legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_errors(results, titles, path):
    """Draw the ECE of each loss on each data set, before and after a temperature."""
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
                label={"none": "as trained"}.get(fitted, "with a temperature"),
            )
        axes.set(title=titles[name], xlabel="ECE in percent")
    panels[0, 0].set_yticks(range(len(losses)), losses)
    panels[0, 0].invert_yaxis()
    panels[0, -1].legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)
