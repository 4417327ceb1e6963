"""Make the page and the pictures of the results beside the papers' numbers.

    python benchmarks/papers/tables.py

It reads `results/small.csv`, which `run.py` makes, and writes `doc/results_papers.md`
and its pictures. The text between the tables is that of `remarks.md`.
"""

import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
from pictures import draw_errors, draw_ratios

HERE = Path(__file__).parent
DOC = HERE.parents[1] / "doc"
BASELINE = "cross-entropy"
PAPERS = ["ghosh2022", "tao2023", "liang2025", "zhou2025", "hebbalaguppe2026"]
MAPS = ["none", "temperature", "structured_vector", "structured_matrix"]
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
IN_PERCENT = [name for name in METRICS if name != "nll"]
# Whose numbers of the papers stand beside which of ours: their data and network.
BESIDE = {
    ("CIFAR-10", "ResNet-50"): "cifar10",
    ("CIFAR-10/CIFAR-10-C", "ResNet-50"): "cifar10",
    ("CIFAR-10/CIFAR-10-C", "ResNet-110"): "cifar10",
    ("20 Newsgroups", "Global Pooling CNN"): "newsgroups",
    ("CIFAR-100", "ResNet-50"): "cifar10",
}


def read_results():
    """Return the results of the small size, shares in percent, of whole seeds only."""
    results = pd.read_csv(HERE / "results" / "small.csv", dtype={"revision": str})
    results[IN_PERCENT] *= 100
    order = {"data": list(DATA), "loss": list(read_toml("losses"))}
    results = results.sort_values(
        ["data", "seed", "loss"],
        key=lambda column: (
            column.map(order[column.name].index) if column.name in order else column
        ),
        kind="stable",
    )
    n_losses = results.groupby(["data", "seed"])["loss"].transform("nunique")
    return results[n_losses == n_losses.groupby(results["data"]).transform("max")]


def read_published():
    """Return the papers' numbers that have one of ours beside them."""
    table = pd.read_csv(HERE / "published.csv", dtype={"table": str})
    keys = zip(table["data"], table["network"], strict=True)
    return table.assign(ours=[BESIDE.get(key) for key in keys]).dropna()


def read_toml(name):
    """Return what a file of this folder says."""
    return tomllib.loads((HERE / f"{name}.toml").read_text())


def write_table(table):
    """Return a DataFrame of strings as Markdown, its index first."""
    head = ["", *table.columns]
    rows = [[index, *row] for index, row in zip(table.index, table.values, strict=True)]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n"


def with_deviation(values, digits=2):
    """Return the mean over the seeds, and the standard deviation where there is one."""
    text = f"{values.mean():.{digits}f}"
    return text if len(values) < 2 else f"{text} ± {values.std():.{digits}f}"


def losses_table(results):
    """Return the metrics of each loss as it is, and the temperature it asks for."""
    plain, scaled = (results[results["map"] == m] for m in ("none", "temperature"))
    columns = {
        title: plain.groupby("loss", sort=False)[name].agg(with_deviation)
        for name, title in METRICS.items()
        if name != "ood_auroc"
    }
    T = scaled.groupby("loss", sort=False)["temperature"].agg(with_deviation)
    seeds = plain.groupby("loss", sort=False).size()
    return pd.DataFrame({**columns, "temperature": T, "seeds": seeds})


def maps_table(results, metric):
    """Return a metric of each loss after each map."""
    chosen = results[results["map"].isin(MAPS)]
    table = chosen.pivot_table(
        metric, "loss", "map", aggfunc=with_deviation, sort=False
    )
    return table[MAPS].rename(columns=lambda name: name.replace("_", " "))


def ratios(values):
    """Return values beside that of the baseline, by loss."""
    return values / values[BASELINE] if BASELINE in values.index else values * np.nan


def mean_of(results, data, metric, fitted):
    """Return the mean of a metric over the seeds, by loss."""
    wanted = (results["data"] == data) & (results["map"] == fitted)
    return results[wanted].groupby("loss", sort=False)[metric].mean()


def compare(published, results):
    """Return a row for each published ratio to cross-entropy, with ours beside it."""
    rows = []
    keys = ["paper", "table", "data", "network", "map", "metric"]
    for key, group in published.groupby(keys, sort=False):
        fitted, metric = key[-2:]
        if metric not in METRICS:
            continue
        theirs = ratios(group.set_index("loss")["value"])
        ours = ratios(mean_of(results, group["ours"].iloc[0], metric, fitted))
        for loss in theirs.index.intersection(ours.index):
            numbers = {"theirs": theirs[loss], "ours": ours[loss], "loss": loss}
            rows.append({**dict(zip(keys, key, strict=True)), **numbers})
    return pd.DataFrame(rows).dropna(subset=["theirs", "ours"])


def ratio_tables(compared):
    """Return for each of a paper's tables the ratios, theirs and ours side by side."""
    text = []
    for (table, metric), group in compared.groupby(["table", "metric"], sort=False):
        columns = {}
        for (data, network, fitted), part in group.groupby(
            ["data", "network", "map"], sort=False
        ):
            by_loss = part.set_index("loss")
            title = f"{data}, {network}" + ("" if fitted == "none" else f", {fitted}")
            columns[title] = by_loss["theirs"].map("{:.2f}".format)
            columns[f"here{' ' * len(columns)}"] = by_loss["ours"].map("{:.2f}".format)
        frame = pd.DataFrame(columns).astype(object).fillna("")
        frame = frame.loc[list(dict.fromkeys(group["loss"]))]
        text.append(f"Table {table}, {METRICS[metric]}, as ratio to cross-entropy:\n")
        text.append(write_table(frame.drop(index=BASELINE, errors="ignore")))
    return "\n".join(text)


def check_claims(paper, published, results):
    """Return a paper's claims with both ratios, and in how many seeds they hold."""
    rows = {}
    for claim in read_toml("claims").get(paper, []):
        row = {}
        for data in DATA:
            theirs = published_ratio(paper, claim, data, published)
            ours, holds, n_seeds = our_ratio(claim, data, results)
            if n_seeds:
                row[f"{DATA[data]}, paper"] = theirs
                row[f"{DATA[data]}, here"] = f"{ours:.2f}"
                row[f"{DATA[data]}, holds in"] = f"{holds} of {n_seeds}"
        rows[claim["says"]] = row
    table = pd.DataFrame(rows).T.astype(object).fillna("")
    return table.loc[:, (table != "").any()]


def published_ratio(paper, claim, data, published):
    """Return a paper's value for the lower loss, over that for the higher one."""
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
        return ""
    return f"{values[claim['lower']] / values[claim['higher']]:.2f}"


def our_ratio(claim, data, results):
    """Return the ratio of means, in how many seeds it is below one, and of how many."""
    fitted = claim.get("map", "none")
    part = results[(results["data"] == data) & (results["map"] == fitted)]
    values = part.pivot_table(claim["metric"], "seed", "loss")
    if not {claim["lower"], claim["higher"]} <= set(values.columns):
        return np.nan, 0, 0
    values = values[[claim["lower"], claim["higher"]]].dropna()
    lower, higher = values.to_numpy().T
    return lower.mean() / higher.mean(), int((lower < higher).sum()), len(values)


def protocol_table(results):
    """Return ECE by clean and by leaking protocols, of the losses of Zhou et al."""
    names = {
        "none": "last epoch",
        "lowest": "epoch chosen on the test part",
        "temperature": "temperature by log loss, held out",
        "temperature by ECE": "temperature by ECE, held out",
        "temperature by training ECE": "temperature by ECE, training part",
    }
    part = results[
        (results["data"] == "cifar10")
        & results["map"].isin(names)
        & results["loss"].isin(read_toml("zhou2025")["losses"])
    ]
    table = part.pivot_table("ece", "loss", "map", aggfunc=with_deviation, sort=False)
    return table[[name for name in names if name in table]].rename(columns=names)


def ood_table(results, published):
    """Return the AUROC of telling other samples by entropy, with the papers'."""
    columns = {}
    for data, title in (("cifar10", "CIFAR-10, noise"), ("fashion_mnist", "MNIST")):
        for fitted in ("none", "temperature"):
            part = results[(results["data"] == data) & (results["map"] == fitted)]
            values = part.groupby("loss", sort=False)["ood_auroc"]
            columns[f"{title}, {fitted}"] = values.agg(with_deviation)
    theirs = published[
        (published["metric"] == "ood_auroc")
        & (published["map"] == "none")
        & (published["data"] == "CIFAR-10/CIFAR-10-C")
    ]
    for (paper, network), part in theirs.groupby(["paper", "network"], sort=False):
        columns[f"{paper}, {network}"] = part.set_index("loss")["value"].map(str)
    return pd.DataFrame(columns).loc[results["loss"].unique()].astype(object).fillna("")


def write_items(paper):
    """Return the list of a paper's tables and figures, and what became of them."""
    rows = {item["name"]: [item["state"], item["note"]] for item in paper["item"]}
    return write_table(pd.DataFrame(rows, index=["here", "note"]).T)


def write_settings(results):
    """Return how the small networks were trained."""
    rows = {
        DATA[name]: [
            settings["network"],
            "/".join(str(size) for size in settings["shares"].values()),
            settings["epochs"],
            f"{settings['optimizer']}, one cycle up to {settings['lr']}",
            f"{results.loc[results['data'] == name, 'cpu_seconds'].median():.0f}",
        ]
        for name, settings in read_toml("small").items()
        if name in set(results["data"])
    }
    columns = ["network", "training/validation/calibration", "epochs"]
    columns += ["optimiser", "CPU seconds a run"]
    return write_table(pd.DataFrame(rows, index=columns).T)


def write_versions(results):
    """Return what made the results."""
    made = {
        name: " and ".join(results[name].unique())
        for name in ("sklearn_calib", "revision", "torch")
    }
    return "Package {sklearn_calib} at {revision}, torch {torch}.".format_map(made)


def write_page():
    """Return the page, by the template in remarks.md."""
    results, published = read_results(), read_published()
    compared = compare(published, results)
    draw_errors(results, DATA, DOC / "images" / "papers_ece.png")
    draw_ratios(compared, DOC / "images" / "papers_ratios.png")
    parts = {
        "settings": write_settings(results),
        "made": write_versions(results),
        "protocols": write_table(protocol_table(results)),
        "ood": write_table(ood_table(results, published)),
    }
    for name, part in results.groupby("data", sort=False):
        parts[f"losses_{name}"] = write_table(losses_table(part))
        parts[f"maps_{name}"] = write_table(maps_table(part, "ece"))
        parts[f"log_loss_{name}"] = write_table(maps_table(part, "nll"))
    for name in PAPERS:
        paper = read_toml(name)
        parts |= {f"{key}_{name}": paper[key] for key in ("reference", "protocol")}
        parts[f"claims_{name}"] = write_table(check_claims(name, published, results))
        parts[f"ratios_{name}"] = ratio_tables(compared[compared["paper"] == name])
        parts[f"items_{name}"] = write_items(paper)
    return (HERE / "remarks.md").read_text().format_map(Parts(parts))


class Parts(dict):
    """The parts of the page; one whose runs are missing says so."""

    def __missing__(self, name):
        return "Not run yet.\n"


if __name__ == "__main__":
    (DOC / "results_papers.md").write_text(write_page())
