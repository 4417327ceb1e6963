"""Write the table of doc/losses.md, the overview of all losses, from the registry.

    python tools/loss_overview.py

Names, parameters, needs and sources are read from the code. What each loss of single
samples is minimal at, where the true class has probability 0.7, is computed. Only the
formulas stand here: a new loss adds its own to `FORMULAS`.
"""

import inspect
import re
import warnings
from pathlib import Path

import numpy as np
import torch

from sklearn_calib import losses
from sklearn_calib.losses import get_loss, get_loss_names

PAGE = Path(__file__).parent.parent / "doc" / "losses.md"

FORMULAS = {
    "acls": "`lambd_top` s(max z) + `lambd_others` mean_k s(max z - z_k), "
    "s(a) = max(0, a - margin)^2",
    "ada_dual_focal": "as `dual_focal`, gamma of the bin of p_t - q",
    "adafocal": "`focal` with gamma by the bin of p_t, `inverse_focal` below 0",
    "aucm": "var+ s + var- s + max(0, margin - mean+ s + mean- s)^2, s = p of a class",
    "aurc": "mean of w(rank of r) (-log p_t), w = H(n) - H(n - rank)",
    "avuc": "log(1 + (sure and wrong + unsure and right) / (the others))",
    "brier": "sum_k (p_k - y_k)^2",
    "calfocal": "`focal` with gamma = exp(lambd (mean r - mean c)) of the bin of p_t",
    "confidence_penalty": "sum_k p_k log p_k, or sum_k abs(p_k - 1/C)",
    "crl": "max(0, s (k_i - k_j - r_i + r_j)), s = sign(k_i - k_j), k the hits so far",
    "cross_entropy": "-log p_t",
    "dca": "abs(mean r - mean c)",
    "dual_focal": "(1 - p_t + q)^gamma (-log p_t)",
    "focal": "(1 - p_t)^gamma (-log p_t)",
    "focal_calibration": "(1 - p_t)^gamma (-log p_t) + lambd sum_k (p_k - y_k)^2",
    "inverse_focal": "(1 + p_t)^gamma (-log p_t)",
    "kde_ece": "mean of sum_k abs(E[y_k given p] - p_k), E by a Dirichlet kernel",
    "label_relaxation": "divergence from the nearest p with p_t >= 1 - alpha",
    "logitnorm": "-log softmax(z / (temperature norm(z)))_t",
    "max_sup": "max z - mean z",
    "mbls": "mean_k max(0, max z - z_k - margin)",
    "mdca": "mean_k abs(mean p_k - mean y_k)",
    "mmce": "mean_ij (c_i - r_i) (c_j - r_j) exp(-abs(r_i - r_j) / 0.4)",
    "per_label": "mean over the labels of `base` for two classes of logits 0 and z",
    "regularized_aurc": "mean of (1 - lambd + lambd w(soft rank of r)) (-log p_t)",
    "sample_dependent_focal": "`focal` with gamma by the value of p_t",
    "selective_aurc": "mean of -log(1 - G(min(r, t))) (-log p_t), G, t of the r so far",
    "soft_binned_ece": "mean of (accuracy of the soft bin - r)^2",
    "weighted_mmce": "root of `mmce`, right and wrong predictions each by their number",
}


def parameters(loss):
    """Return the parameters of a loss with their defaults."""
    shown = [
        f"{each.name}={each.default!r}"
        for each in inspect.signature(loss).parameters.values()
        if each.kind is not each.VAR_KEYWORD and each.name != "reduction"
    ]
    return ", ".join(f"`{each}`" for each in shown) or "-"


def needs(loss):
    """Return what a loss needs or takes besides logits and labels."""
    found = {
        "validation data": loss.learns_from_validation is True,
        "which samples it sees": loss.needs_indices,
        "the start of each epoch": "start_epoch" in vars(loss),
        "the whole batch": not loss.is_per_sample,
        "takes probabilities as labels": loss.takes_probabilities,
        "a 0 or 1 for each label": loss.is_multilabel,
    }
    return ", ".join(name for name, holds in found.items() if holds) or "-"


def minimiser(loss):
    """Return the probability at which the expected loss is smallest, for truth 0.7."""
    is_one_class = loss.is_per_sample and not loss.is_multilabel
    if not is_one_class or loss is losses.LogitNormLoss:
        return "-"
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        criterion = loss(reduction="none").eval()
    # No exact tie is on the grid: what a loss is there says nothing of its minimum.
    low, high = -12.0, 12.001
    for _ in range(4):
        margin = torch.linspace(low, high, 4001, dtype=torch.float64)
        logits = torch.stack([margin, torch.zeros_like(margin)], 1)
        risk = sum(
            share * criterion(logits, torch.full((4001,), target))
            for target, share in enumerate([0.7, 0.3])
        )
        best = margin[risk.argmin()].item()
        low, high = best - (high - low) / 1000, best + (high - low) / 1000
    return f"{1 / (1 + np.exp(-best)):.3f}"


def source(name):
    """Return the authors and the year of the first reference."""
    docstring = inspect.getdoc(getattr(losses, f"{name}_loss"))
    found = re.search(r"\.\. \[1\] (.*?) \((\d{4})\)", docstring, re.DOTALL)
    if found is None:
        return "-"
    first, *others = re.sub(r"\s+", " ", found[1]).split(", ")
    return f"{first}{' et al.' if others else ''} {found[2]}"


def render():
    """Return the page."""
    rows = [
        "| name | formula | parameters | needs | minimal at | source |",
        "|---|---|---|---|---|---|",
    ]
    for name in sorted([*get_loss_names(), *get_loss_names(multilabel=True)]):
        loss = get_loss(name)
        cells = (
            f"`{name}`",
            FORMULAS[name],
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
