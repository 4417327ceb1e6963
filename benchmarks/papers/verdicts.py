"""Decide which claims of the papers hold, from the recorded results.

    python benchmarks/papers/verdicts.py

Reads `results/medium.csv` and `results/small.csv`, which `run.py` makes, and
`results/refcal.csv`, which `bench_refcal.py` makes, and prints four tables.

1. The claims of `inputs/claims.toml`: ratio of two losses in the paper and here, as the
   geometric mean over the seeds with its 95 % t-interval. A claim holds if the interval
   lies below 1, does not hold if it lies above 1, and is undecided otherwise. The first
   size with both losses decides: medium, small, long tail.
2. Ratio of every loss to cross-entropy in error, ECE and log loss, with intervals,
   before and after a temperature.
3. ECE and OOD AUROC of every loss by protocol, means over the seeds. Four of the
   protocols are those of the papers, and two of these leak: see `score.py`. In the
   medium size, "temperature by adaptive ECE" is measured for the losses of its claims
   only, in training runs of another revision than the rest.
4. ECE by protocol as ratio to the last epoch without calibration: of cross-entropy with
   its interval, and the mean over the losses.
"""

import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

HERE = Path(__file__).parent
BASELINE = "cross-entropy"
PAPERS = {
    "ghosh2022": "AdaFocal",
    "tao2023": "dual focal",
    "liang2025": "focal calibration",
    "zhou2025": "r-AURC",
    "hebbalaguppe2026": "RefCal",
}
# The papers' data set and network with which ours are compared.
COMPARABLE = {
    ("CIFAR-10", "ResNet-50"): "cifar10",
    ("CIFAR-10/CIFAR-10-C", "ResNet-50"): "cifar10",
    ("CIFAR-10/CIFAR-10-C", "ResNet-110"): "cifar10",
    ("CIFAR-100", "ResNet-50"): "cifar10",
    ("CIFAR-100-LT", "ResNet-50"): "long_tail",
}


def read_toml(name):
    """Return the content of a TOML file in `inputs`."""
    return tomllib.loads((HERE / "inputs" / f"{name}.toml").read_text("utf-8"))


def read_published():
    """Return the papers' numbers for which there is a result here."""
    table = pd.read_csv(HERE / "inputs" / "published.csv", dtype={"table": str})
    keys = zip(table["data"], table["network"], strict=True)
    return table.assign(ours=[COMPARABLE.get(key) for key in keys]).dropna()


def read_results(size):
    """Return the results of a size of `run.py`."""
    return pd.read_csv(HERE / "results" / f"{size}.csv", dtype={"revision": str})


def read_long_tail():
    """Return the results of `bench_refcal.py` by the names of the claims.

    The baseline has augmented images, as in the authors' code.
    """
    table = pd.read_csv(HERE / "results" / "refcal.csv")
    loss = table["row"].str.lower()
    is_plain = ~loss.str.startswith("refcal") & ~loss.str.endswith(", augmented")
    loss = loss.str.removesuffix(", augmented").mask(is_plain, loss + ", not augmented")
    measured = {
        "error": 1 - table["accuracy"],
        "ece": table["ECE"],
        "classwise_ece": table["SCE"],
        "auc": table["AUC"],
        "nll": table["log loss"],
    }
    found = table[["seed"]].assign(data="long_tail", loss=loss, map="none")
    return found.assign(**measured)


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
    if not {lower, higher} <= set(part["loss"]):
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
    return "does not hold" if low > 1 else "undecided"


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

    `sources` are the results by size. The first of those with both losses decides.
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


def decide():
    """Return the verdicts on all claims, from the recorded results."""
    sources = {
        "medium": only_tuned(*add_tuned(read_results("medium"))),
        "small": read_results("small"),
        "long tail": read_long_tail(),
    }
    return settle(sources, read_published())


def as_text(numbers):
    """Return a ratio with its interval."""
    return "{:.2f} ({:.2f} to {:.2f})".format(*numbers)


def to_baseline(results, maps=("none", "temperature")):
    """Return the ratios of each loss to cross-entropy, of one data set."""
    losses = results.loc[results["loss"] != BASELINE, "loss"].unique()
    return pd.DataFrame(
        {
            f"{metric}, {fitted}": {
                loss: interval(seed_ratios(loss, BASELINE, metric, fitted, results))
                for loss in losses
            }
            for metric in ("error", "ece", "nll")
            for fitted in maps
            if (metric, fitted) != ("error", "temperature")
        }
    )


def by_protocol(results):
    """Return the ECE of each loss by protocol, and its OOD AUROC, of one data set."""
    means = results.groupby(["loss", "map"], sort=False)[["ece", "ood_auroc"]].mean()
    auroc = means["ood_auroc"].unstack("map")[["none", "temperature"]]
    table = means["ece"].unstack("map").join(auroc.add_prefix("AUROC, "))
    return table.dropna(axis=1, how="all")


def to_last_epoch(results):
    """Return the ECE of each protocol as ratio to the last epoch, of one data set."""
    by_seed = results.set_index(["loss", "seed", "map"])["ece"].unstack("map")
    ratios = by_seed.div(by_seed["none"], axis=0)
    means = by_protocol(results)[by_seed.columns]
    return pd.DataFrame(
        {
            BASELINE: ratios.loc[BASELINE].agg(lambda x: as_text(interval(x.dropna()))),
            "mean over losses": means.div(means["none"], axis=0).mean().round(2),
        }
    )


def main():
    """Print the tables."""
    settled = decide().set_index("says").drop(columns=["lower", "higher", "metric"])
    print(settled[["theirs", "ours", "low", "high", "size", "seeds", "verdict"]])
    print(settled["verdict"].value_counts().to_string())
    sizes = {name: read_results(name) for name in ("medium", "small")}
    sizes["medium"], _ = add_tuned(sizes["medium"])
    for size, results in {**sizes, "long tail": read_long_tail()}.items():
        for data, part in results.groupby("data", sort=False):
            maps = [m for m in ("none", "temperature") if m in set(part["map"])]
            table = to_baseline(part, maps).map(as_text)
            print(f"\nRatio to {BASELINE}: {data}, {size}\n{table}")
    for size, results in sizes.items():
        for data, part in results.groupby("data", sort=False):
            means = by_protocol(part).mul(100).round(2).to_string(na_rep="-")
            print(f"\nMeans: {data}, {size}\n{means}")
            print(f"\nECE, ratio to the last epoch: {data}, {size}")
            print(to_last_epoch(part))


if __name__ == "__main__":
    pd.set_option("display.width", 250, "display.max_columns", 20)
    pd.set_option("display.max_rows", 100, "display.max_colwidth", 100)
    pd.set_option("display.precision", 3)
    main()
