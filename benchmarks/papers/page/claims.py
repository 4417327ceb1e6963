"""Comparison of the papers' claims with the results here."""

import math
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

HERE = Path(__file__).parents[1]
BASELINE = "cross-entropy"
PAPERS = ["ghosh2022", "tao2023", "liang2025", "zhou2025", "hebbalaguppe2026"]
# The papers' data set and network with which ours are compared.
COMPARABLE = {
    ("CIFAR-10", "ResNet-50"): "cifar10",
    ("CIFAR-10/CIFAR-10-C", "ResNet-50"): "cifar10",
    ("CIFAR-10/CIFAR-10-C", "ResNet-110"): "cifar10",
    ("20 Newsgroups", "Global Pooling CNN"): "newsgroups",
    ("CIFAR-100", "ResNet-50"): "cifar10",
    ("CIFAR-100-LT", "ResNet-50"): "long_tail",
}

UPDATE_EVERY = "callbacks__update_loss__update_every"


def read_toml(name):
    """Return the content of a TOML file in this folder."""
    return tomllib.loads((HERE / "inputs" / f"{name}.toml").read_text("utf-8"))


def read_published():
    """Return the papers' numbers for which there is a result here."""
    table = pd.read_csv(HERE / "inputs" / "published.csv", dtype={"table": str})
    keys = zip(table["data"], table["network"], strict=True)
    return table.assign(ours=[COMPARABLE.get(key) for key in keys]).dropna()


def add_tuned(results):
    """Append losses whose parameter is chosen for each seed by the validation ECE.

    Returns the results, and for each such loss the chosen candidates by seed.
    """
    parts, chosen = [results], {}
    for loss, candidates in read_toml("medium")["tuned"].items():
        part = results[results["loss"].isin(candidates)]
        n_trained = part.groupby("seed")["loss"].transform("nunique")
        part = part[n_trained == len(candidates)]
        if part.empty:
            continue
        plain = part[part["map"] == "none"].set_index("loss")
        chosen[loss] = plain.groupby("seed")["valid_ece"].idxmin()
        best = part[part["loss"] == part["seed"].map(chosen[loss])]
        parts.append(best.assign(loss=f"{loss}, tuned"))
    return pd.concat(parts, ignore_index=True), chosen


def only_tuned(results, chosen):
    """Return the results with the tuned losses in place of their candidates."""
    tuned = read_toml("medium")["tuned"]
    candidates = [name for loss in chosen for name in tuned[loss]]
    kept = results[~results["loss"].isin(candidates)]
    return kept.assign(loss=kept["loss"].str.removesuffix(", tuned"))


def seed_ratios(lower, higher, metric, fitted, results):
    """Return the ratio of two losses in each seed."""
    part = results[results["map"] == fitted]
    if metric not in part or not {lower, higher} <= set(part["loss"]):
        return np.array([])
    values = part.groupby(["loss", "seed"])[metric].mean()
    return (values[lower] / values[higher]).dropna().to_numpy()


def interval(ratios, level=0.95):
    """Return the geometric mean of ratios over the seeds, and its t-interval."""
    logs = np.log(ratios)
    width = np.inf
    if len(logs) > 1:
        quantile = stats.t.ppf((1 + level) / 2, len(logs) - 1)
        width = quantile * stats.sem(logs)
    return np.exp(logs.mean() + np.array([0, -width, width]))


def judge(low, high):
    """Return the verdict on the claim that a ratio is below 1, by its interval."""
    if high < 1:
        return "holds"
    return "does not hold" if low > 1 else "cannot tell"


def published_ratio(paper, claim, data, published):
    """Return the ratio of a paper's values of two losses, lower to higher."""
    network = claim.get("network")
    wanted = published[
        (published["paper"] == paper)
        & (published["table"] == claim["table"])
        & (published["metric"] == claim["metric"])
        & (published["map"] == claim.get("map", "none"))
        & (published["ours"] == data)
        & ((published["network"] == network) if network else True)
    ]
    values = wanted.drop_duplicates("loss").set_index("loss")["value"]
    if not {claim["lower"], claim["higher"]} <= set(values.index):
        return np.nan
    return values[claim["lower"]] / values[claim["higher"]]


def settle(sources, published):
    """Return the claims with both ratios and a verdict.

    `sources` are the results by size, for one data set each. The first of those with
    both losses decides.
    """
    rows = []
    for paper in PAPERS:
        for claim in read_toml("claims").get(paper, []):
            data = claim.get("data", "cifar10")
            names = [claim[name] for name in ("lower", "higher", "metric")]
            for size, results in sources.items():
                part = results[results["data"] == data]
                ratios = seed_ratios(*names, claim.get("map", "none"), part)
                if len(ratios):
                    mean, low, high = interval(ratios)
                    theirs = published_ratio(paper, claim, data, published)
                    numbers = {"theirs": theirs, "ours": mean, "low": low, "high": high}
                    found = {"size": size, "seeds": len(ratios)}
                    rows.append({"paper": paper, **claim, **numbers, **found})
                    break
    table = pd.DataFrame(rows)
    verdicts = [judge(*ends) for ends in zip(table["low"], table["high"], strict=True)]
    return table.assign(verdict=verdicts)


def compare(published, results):
    """Return a row for each published ratio to cross-entropy, with the ratio here."""
    rows = []
    keys = ["paper", "table", "data", "network", "map", "metric"]
    for key, group in published.groupby(keys, sort=False):
        fitted, metric = key[-2:]
        values = group.drop_duplicates("loss").set_index("loss")["value"]
        ours = results[results["data"] == group["ours"].iloc[0]]
        trained = values.index.intersection(ours["loss"].unique(), sort=False)
        for loss in trained if BASELINE in values.index else ():
            ratios = seed_ratios(loss, BASELINE, metric, fitted, ours)
            if len(ratios):
                mean, low, high = interval(ratios)
                theirs = values[loss] / values[BASELINE]
                numbers = {"theirs": theirs, "ours": mean, "low": low, "high": high}
                rows.append(
                    {**dict(zip(keys, key, strict=True)), "loss": loss, **numbers}
                )
    return pd.DataFrame(rows)


def compare_headlines(published, sources):
    """Return the calibration errors in the claims, for the size that decides."""
    keys = ["paper", "table", "metric", "loss"]
    claimed = {
        (paper, claim["table"], claim["metric"], claim[loss])
        for paper, claims in read_toml("claims").items()
        for claim in claims
        for loss in ("lower", "higher")
        if claim["metric"].endswith("ece") and claim[loss] != BASELINE
    }
    published = published[
        published["metric"].str.endswith("ece")
        & published["data"].isin(["CIFAR-10", "CIFAR-100-LT"])
        & published["map"].isin(["none", "lowest"])
    ]
    parts = [compare(published, results) for results in sources.values()]
    compared = pd.concat(parts, ignore_index=True)
    rows = zip(*(compared[key] for key in keys), strict=True)
    shown = compared[[row in claimed for row in rows]]
    return shown.drop_duplicates([*keys, "data", "map"])


def count_updates(sources, titles):
    """Return the ECE of AdaFocal relative to cross-entropy, by number of updates."""
    rows, losses = [], read_toml("losses")
    for size, results in sources.items():
        for data, part in results.groupby("data", sort=False):
            settings = read_toml(size)["experiments"][data]
            n_batches = math.ceil(settings["splits"]["n_train"] / 128)
            for loss, params in losses.items():
                ratios = seed_ratios(loss, BASELINE, "ece", "none", part)
                if params["loss"] != "adafocal" or "sum" in loss or not len(ratios):
                    continue
                every = params.get(UPDATE_EVERY, settings["params"][UPDATE_EVERY])
                every = n_batches if every == "epoch" else every
                mean, low, high = interval(ratios)
                rows.append(
                    {
                        "training": f"{titles[data]}, {size}",
                        "updates": settings["epochs"] * n_batches // every,
                        "loss": loss,
                        "ratio": mean,
                        "low": low,
                        "high": high,
                    }
                )
    return pd.DataFrame(rows).sort_values(["training", "updates"])
