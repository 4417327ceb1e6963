"""Tables of the documentation that the code knows, in Markdown.

`doc/conf.py` puts them into the pages, in place of comments such as
`<!-- table: names metrics -->`.
"""

import csv
import inspect
import runpy
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import torch

from sklearn_calib import CalibratedClassifier, NeuralClassifier, losses
from sklearn_calib._state.schema import DERIVED_SIZES
from sklearn_calib.calibrators import (
    DirichletCalibrator,
    MulticalibrationBoosting,
    PerGroupCalibrator,
    PerLabelCalibrator,
    TemperatureAccumulator,
    TemperatureScaling,
    get_calibrator,
    get_calibrator_names,
)
from sklearn_calib.deployment import CalibrationMonitor, PriorShiftClassifier
from sklearn_calib.losses import get_loss, get_loss_names
from sklearn_calib.metrics import CalibrationAccumulator, get_scorer_names
from sklearn_calib.persistence._documents import CLASSES

BIBLIOGRAPHY = runpy.run_path(str(Path(__file__).with_name("bibliography.py")))
PAPERS = Path(__file__).parents[1] / "benchmarks" / "papers"
# Rows of `benchmarks/papers/inputs/losses.toml` on the page of losses.
COMPARED = [
    *("adafocal", "ada-dual-focal", "calfocal", "brier", "dual-focal"),
    *("focal-3", "focal-calibration", "focal-calibration-half", "flsd-53"),
    *("inverse-focal", "label-smoothing", "mbls", "crl", "logitnorm", "kde-xe"),
    *("mdca", "focal-mdca", "mmce-default", "r-aurc-probability"),
]
BEFORE_AND_AFTER = "{}\N{NO-BREAK SPACE}→\N{NO-BREAK SPACE}{}"
DATA = {
    "cifar10": "CIFAR-10",
    "fashion_mnist": "Fashion-MNIST",
    "newsgroups": "20 Newsgroups",
}


def table(head, rows):
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def names(topic):
    """Return the public names of a topic; a function and its class share a row."""
    module, rows = import_module(f"sklearn_calib.{topic}"), {}
    for name in sorted(module.__all__, key=str.lower):
        summary = inspect.getdoc(getattr(module, name)).partition("\n")[0]
        rows.setdefault(summary, []).append(f"`{name}`")
    return table(
        ["name", "what it is"],
        [[", ".join(shared), summary] for summary, shared in rows.items()],
    )


def scorers():
    """Return the scorer strings."""
    return ", ".join(f'`"{name}"`' for name in get_scorer_names())


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
        log_odds = torch.linspace(low, high, 4001, dtype=torch.float64)
        logits = torch.stack([log_odds, torch.zeros_like(log_odds)], 1)
        risk = sum(
            proba * criterion(logits, torch.full((4001,), target))
            for target, proba in enumerate([0.7, 0.3])
        )
        best = log_odds[risk.argmin()].item()
        low, high = best - (high - low) / 1000, best + (high - low) / 1000
    return f"{1 / (1 + np.exp(-best)):.3f}"


def source(name):
    """Return the authors and the year of the first reference."""
    docstring = inspect.getdoc(getattr(losses, f"{name}_loss"))
    for reference in BIBLIOGRAPHY["references"](docstring):
        authors, year, *_ = BIBLIOGRAPHY["parse"](reference)
        first, *others = authors.split(", ")
        first += " et al." if others else ""
        return f"[{first} {year}](generated/bibliography.md)"
    return "-"


def loss_rows():
    """Return the registered losses with formulas, parameters, needs and sources."""
    found = sorted([*get_loss_names(), *get_loss_names(multilabel=True)])
    return table(
        ["name", "formula", "parameters", "needs or accepts", "minimiser", "source"],
        [
            [f"`{n}`", c.formula, parameters(c), needs(c), minimiser(c), source(n)]
            for n, c in ((name, get_loss(name)) for name in found)
        ],
    )


def describe(schema, left_out=()):
    """Return the keys of a schema with their descriptions."""
    return "; ".join(
        f"`{name}`{'*' * spec.is_optional}: {spec}"
        for name, spec in schema.items()
        if name not in left_out
    )


def files():
    """Return the keys of saved models."""
    calibrators = [get_calibrator(name)() for name in get_calibrator_names()]
    # It depends on a parameter, so it is shown for both values.
    calibrators.append(DirichletCalibrator(diagonal=True))
    others = [
        PerLabelCalibrator(TemperatureScaling()),
        MulticalibrationBoosting(),
        PerGroupCalibrator(),
        NeuralClassifier(),
        CalibratedClassifier(NeuralClassifier(), None),
        PriorShiftClassifier(NeuralClassifier()),
        CalibrationAccumulator(labels=["a", "b"]),
        CalibrationMonitor(labels=["a", "b"]),
        TemperatureAccumulator(labels=["a", "b"]),
    ]
    shown = {type(model).__name__ for model in [*calibrators, *others]}
    if shown != set(CLASSES):
        raise ValueError(f"The page must show {set(CLASSES) ^ shown}.")
    schemas = [model._state_schema for model in calibrators]
    common = {
        name: spec
        for name, spec in schemas[0].items()
        if all(name in schema for schema in schemas)
    }
    two, three = ({n: size(k) for n, size in DERIVED_SIZES.items()} for k in (2, 3))
    sizes = ", ".join(
        f"`{name}` is {two[name]} for two classes and "
        f"{'`n_classes`' if three[name] == 3 else three[name]} otherwise"
        for name in DERIVED_SIZES
    )
    tables = [
        table(
            ["key of every calibrator", "value"],
            [[f"`{n}`{'*' * s.is_optional}", str(s)] for n, s in common.items()],
        ),
        table(
            ["class", "value"],
            [
                [f"`{model!r}`", describe(model._state_schema, common)]
                for model in sorted(calibrators, key=repr)
            ]
            + [
                [f"`{type(model).__name__}()`", describe(model._state_schema)]
                for model in others
            ],
        ),
        f"Sizes: {sizes}. `n` is any size, the same within an entry.",
    ]
    return "\n\n".join(tables)


def verdicts():
    """Return the claims of the papers, with the ratios there and here."""
    script = runpy.run_path(str(PAPERS / "verdicts.py"))
    rows = [
        [
            script["PAPERS"][claim.paper],
            claim.says,
            f"{claim.theirs:.2f}",
            f"{claim.ours:.3f} ({claim.low:.3f} to {claim.high:.3f})",
            claim.verdict if claim.verdict == "undecided" else f"**{claim.verdict}**",
        ]
        for claim in script["decide"]().itertuples()
    ]
    return table(["paper", "claim", "ratio there", "ratio here", "verdict"], rows)


def paper_items():
    """Return the tables and figures of the papers, and where they are repeated."""
    papers = runpy.run_path(str(PAPERS / "verdicts.py"))["PAPERS"]
    with (PAPERS / "inputs" / "items.csv").open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    return table(
        ["paper", "tables and figures", "content", "here", "where, or why not"],
        [[papers[paper], *row] for paper, *row in rows],
    )


def as_user_writes(params):
    """Return a loss of the papers and its parameters by the names of users."""
    given = [f"{k[6:]}={v}" for k, v in params.items() if k.startswith("loss__")]
    return ", ".join([f"`{params['loss']}`", *given])


def in_bold(mean, low, high):
    """Return a ratio, in bold if its interval does not contain 1."""
    return f"{mean:.2f}" if low <= 1 <= high else f"**{mean:.2f}**"


def loss_ratios():
    """Return the ECE and log loss of losses, with and without a temperature."""
    script = runpy.run_path(str(PAPERS / "verdicts.py"))
    losses, results = script["read_toml"]("losses"), script["read_results"]("small")
    maps = ["none", "temperature"]
    head, rows = ["loss"], {name: [] for name in ["cross-entropy", *COMPARED]}
    for data, title in DATA.items():
        part = results[results["data"] == data]
        means = part.groupby(["loss", "map"])[["ece", "nll"]].mean()
        ratios = script["to_baseline"](part)
        for metric, text in (("ece", "{:.1%}"), ("nll", "{:.2f}")):
            head.append(f"{title}, {'ECE' if metric == 'ece' else 'log loss'}")
            baseline = means.loc["cross-entropy"].loc[maps, metric]
            both = [
                text.format(value).replace("%", "\N{NO-BREAK SPACE}%")
                for value in baseline
            ]
            rows["cross-entropy"].append(BEFORE_AND_AFTER.format(*both))
            for name in COMPARED:
                both = [in_bold(*ratios.at[name, f"{metric}, {m}"]) for m in maps]
                rows[name].append(BEFORE_AND_AFTER.format(*both))
    return table(head, [[as_user_writes(losses[n]), *row] for n, row in rows.items()])
