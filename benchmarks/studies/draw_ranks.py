"""Draw the mean ranks of the calibrators in log loss, from the tables of the results.

    python benchmarks/studies/draw_ranks.py

Reads `doc/results.md` and writes `doc/images/calibrator_ranks.png`. The scripts that
make the tables are `bench_public_logits.py` and `bench_trees.py`.
"""

import re
from pathlib import Path

import matplotlib.pyplot as plt

DOC = Path(__file__).parents[2] / "doc"
TITLES = ["public logits", "behind forests", "behind boosting"]


def read_ranks(text):
    """Return the mean ranks in log loss of each table, by calibrator."""
    tables = re.findall(
        r"^\| calibrator \| (?:log loss|rank) \|.*\n\|.*\n((?:\|.*\n)+)", text, re.M
    )
    row = re.compile(r"^\| (\w+) \| ([\d.]+) \|", re.M)
    return [{name: float(rank) for name, rank in row.findall(t)} for t in tables]


def draw(ranks, path):
    """Draw a panel of bars for each table, in the order of the first one."""
    names = sorted(ranks[0], key=ranks[0].get)
    labels = ["uncalibrated" if n == "none" else n.replace("_", " ") for n in names]
    figure, panels = plt.subplots(
        1, len(ranks), figsize=(9, 7), sharey=True, layout="constrained"
    )
    for axes, title, table in zip(panels, TITLES, ranks, strict=True):
        measured = {i: table[name] for i, name in enumerate(names) if name in table}
        colors = ["C7" if names[i] == "none" else "C0" for i in measured]
        bars = axes.barh(list(measured), list(measured.values()), color=colors)
        axes.bar_label(bars, fmt="%.1f", padding=2, fontsize=7)
        axes.set_title(f"{title}\n({len(table)} compared)", fontsize="medium")
        axes.set_xlim(0, 1.15 * len(table))
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_yticks(range(len(names)), labels)
    panels[0].invert_yaxis()
    figure.supxlabel("mean rank in log loss (1 is best)", fontsize="medium")
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    draw(
        read_ranks((DOC / "results.md").read_text(encoding="utf-8")),
        DOC / "images" / "calibrator_ranks.png",
    )
