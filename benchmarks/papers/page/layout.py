"""Format of numbers and tables on the page."""

import math

from claims import BASELINE, interval, seed_ratios

DATA = {
    "cifar10": "CIFAR-10",
    "fashion_mnist": "Fashion-MNIST",
    "newsgroups": "20 Newsgroups",
}
METRICS = {
    "error": "error",
    "ece": "ECE",
    "adaptive_ece": "adaptive ECE",
    "classwise_ece": "class-wise ECE",
    "smece": "smECE",
    "aurc": "AURC",
    "nll": "log loss",
    "ood_auroc": "AUROC",
}
SHORT = {
    "ghosh2022": "AdaFocal",
    "tao2023": "dual focal",
    "liang2025": "focal calibration",
    "zhou2025": "r-AURC",
    "hebbalaguppe2026": "RefCal",
}


def write_table(table):
    """Return a DataFrame of strings as a Markdown table, with its index."""
    head = ["", *table.columns]
    rows = [[index, *row] for index, row in zip(table.index, table.values, strict=True)]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n"


def with_deviation(values, digits=2):
    """Return the mean over the seeds, with the standard deviation if defined."""
    text = f"{values.mean():.{digits}f}"
    return text if len(values) < 2 else f"{text} ± {values.std():.{digits}f}"


def as_ratio(value):
    """Return a ratio as text, or an empty text for a missing one."""
    return "" if math.isnan(value) else f"{value:.2f}"


def with_interval(lower, results, metric, fitted="none", higher=BASELINE):
    """Return the ratio of two losses and its interval."""
    ratios = seed_ratios(lower, higher, metric, fitted, results)
    if lower == higher or not len(ratios):
        return ""
    return "{:.2f} ({:.2f} to {:.2f})".format(*interval(ratios))
