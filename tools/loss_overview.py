"""Write the table of doc/losses.md, the overview of all losses, from the registry.

    python tools/loss_overview.py

Names, formulas, parameters, needs and sources are read from the code. For per-sample
losses, the minimiser for a true probability of 0.7 is computed.
"""

import inspect
import runpy
import warnings
from pathlib import Path

import numpy as np
import torch

from sklearn_calib import losses
from sklearn_calib.losses import get_loss, get_loss_names

TOOLS = Path(__file__).parent
PAGE = TOOLS.parent / "doc" / "losses.md"
BIBLIOGRAPHY = runpy.run_path(str(TOOLS / "bibliography.py"))


def parameters(loss):
    """Return the parameters of a loss with their defaults."""
    shown = [
        f"{each.name}={each.default!r}"
        for each in inspect.signature(loss).parameters.values()
        if each.kind is not each.VAR_KEYWORD and each.name != "reduction"
    ]
    return ", ".join(f"`{each}`" for each in shown) or "-"


def needs(loss):
    """Return what a loss needs or accepts in addition to logits and labels."""
    found = {
        "validation data": loss.learns_from_validation is True,
        "sample indices": loss.needs_indices,
        "the start of each epoch": "start_epoch" in vars(loss),
        "the whole batch": not loss.is_per_sample,
        "accepts soft targets": loss.takes_probabilities,
        "multi-label targets": loss.is_multilabel,
    }
    return ", ".join(name for name, holds in found.items() if holds) or "-"


def minimiser(loss):
    """Return the probability that minimises the expected loss, for a true 0.7."""
    is_one_class = loss.is_per_sample and not loss.is_multilabel
    if not is_one_class or loss is losses.LogitNormLoss:
        return "-"
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        criterion = loss(reduction="none").eval()
    # The grid has no exact tie, where some losses have an isolated small value.
    low, high = -12.0, 12.001
    for _ in range(4):
        margin = torch.linspace(low, high, 4001, dtype=torch.float64)
        logits = torch.stack([margin, torch.zeros_like(margin)], 1)
        risk = sum(
            proba * criterion(logits, torch.full((4001,), target))
            for target, proba in enumerate([0.7, 0.3])
        )
        best = margin[risk.argmin()].item()
        low, high = best - (high - low) / 1000, best + (high - low) / 1000
    return f"{1 / (1 + np.exp(-best)):.3f}"


def source(name):
    """Return the authors and the year of the first reference."""
    docstring = inspect.getdoc(getattr(losses, f"{name}_loss"))
    for reference in BIBLIOGRAPHY["references"](docstring):
        authors, year, *_ = BIBLIOGRAPHY["parse"](reference)
        first, *others = authors.split(", ")
        names = f"{first}{' et al.' if others else ''} {year}"
        return f"[{names}](generated/bibliography.md)"
    return "-"


def render():
    """Return the page."""
    rows = [
        "| name | formula | parameters | needs or accepts | minimiser | source |",
        "|---|---|---|---|---|---|",
    ]
    for name in sorted([*get_loss_names(), *get_loss_names(multilabel=True)]):
        loss = get_loss(name)
        cells = (
            f"`{name}`",
            loss.formula,
            parameters(loss),
            needs(loss),
            minimiser(loss),
            source(name),
        )
        rows.append(f"| {' | '.join(cells)} |")
    head, rest = PAGE.read_text(encoding="utf-8").split("| name |", maxsplit=1)
    return head + "\n".join(rows) + "\n" + rest[rest.index("\n## ") :]


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
