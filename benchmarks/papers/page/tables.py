"""Make the page and the pictures of the comparison with the papers.

    python benchmarks/papers/page/tables.py

It reads `small.csv` and `medium.csv` in `results`, which `run.py` makes, and
`refcal.csv`, which `bench_refcal.py` makes, and writes `doc/results_papers.md` and its
pictures. The text between the tables is that of `remarks.md`.
"""

import pandas as pd
from claims import (
    BASELINE,
    HERE,
    PAPERS,
    add_tuned,
    compare,
    compare_headlines,
    count_updates,
    interval,
    only_tuned,
    published_ratio,
    read_published,
    read_toml,
    seed_ratios,
    settle,
)
from decisive import (
    count_verdicts,
    long_tail_table,
    medium_table,
    sums_table,
    tuned_table,
    updates_table,
    verdict_table,
)
from layout import DATA, METRICS, SHORT, as_ratio, with_deviation, write_table
from pictures import draw_errors, draw_ratios, draw_updates

DOC = HERE.parents[1] / "doc"
MAPS = ["none", "temperature", "structured_vector", "structured_matrix"]
IN_PERCENT = [name for name in METRICS if name != "nll"]


def read_results(size):
    """Return the results of a size, with fractions in percent."""
    path = HERE / "results" / f"{size}.csv"
    results = pd.read_csv(path, dtype={"revision": str})
    results[IN_PERCENT] *= 100
    order = {"data": list(DATA), "loss": list(read_toml("losses"))}
    return results.sort_values(
        ["data", "seed", "loss"],
        key=lambda column: (
            column.map(order[column.name].index) if column.name in order else column
        ),
        kind="stable",
    )


def losses_table(results):
    """Return the metrics of each loss as trained, and its fitted temperature."""
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
    """Return a metric for each loss and calibrator."""
    chosen = results[results["map"].isin(MAPS)]
    table = chosen.pivot_table(
        metric, "loss", "map", aggfunc=with_deviation, sort=False
    )
    return table[MAPS].rename(columns=lambda name: name.replace("_", " "))


def read_long_tail():
    """Return the results of bench_refcal.py by the papers' names, in percent.

    The baseline has augmented images, as in the paper.
    """
    table = pd.read_csv(HERE / "results" / "refcal.csv")
    loss = table["row"].str.lower()
    is_plain = ~loss.str.startswith("refcal") & ~loss.str.endswith(", augmented")
    loss = loss.str.removesuffix(", augmented").mask(is_plain, loss + ", not augmented")
    columns = {
        "error": 1 - table["accuracy"],
        "ece": table["ECE"],
        "classwise_ece": table["SCE"],
        "auc": table["AUC"],
        "refinement_auc": table["refinement AUC"],
    }
    return (
        pd.DataFrame(columns)
        .mul(100)
        .assign(
            nll=table["log loss"],
            loss=loss,
            row=table["row"],
            seed=table["seed"],
            data="long_tail",
            map="none",
        )
    )


def ratio_tables(compared):
    """Return the ratios of the paper and ours for each of the paper's tables."""
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
    """Return a paper's claims with both ratios, and the number of seeds that agree."""
    rows = {}
    for claim in read_toml("claims").get(paper, []):
        row = {}
        for data in DATA:
            part = results[results["data"] == data]
            names = [claim[name] for name in ("lower", "higher", "metric")]
            ratios = seed_ratios(*names, claim.get("map", "none"), part)
            if len(ratios):
                theirs = published_ratio(paper, claim, data, published)
                row[f"{DATA[data]}, paper"] = as_ratio(theirs)
                row[f"{DATA[data]}, here"] = as_ratio(interval(ratios)[0])
                row[f"{DATA[data]}, holds in"] = (
                    f"{(ratios < 1).sum()} of {len(ratios)}"
                )
        if row:
            rows[claim["says"]] = row
    table = pd.DataFrame(rows).T.astype(object).fillna("")
    return table.loc[:, (table != "").any()]


def protocol_table(results):
    """Return the ECE of the losses of Zhou et al. by clean and leaking protocols."""
    names = {
        "none": "last epoch",
        "lowest": "epoch chosen on the test set",
        "temperature": "temperature by log loss, held-out data",
        "temperature by ECE": "temperature by ECE, held-out data",
        "temperature by training ECE": "temperature by ECE, training set",
    }
    part = results[
        (results["data"] == "cifar10")
        & results["map"].isin(names)
        & results["loss"].isin(read_toml("zhou2025")["losses"])
    ]
    table = part.pivot_table("ece", "loss", "map", aggfunc=with_deviation, sort=False)
    return table[[name for name in names if name in table]].rename(columns=names)


def ood_table(results, published):
    """Return the AUROC of OOD detection by entropy, here and in the paper."""
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
    """Return a paper's tables and figures, and whether they are reproduced."""
    rows = {item["name"]: [item["state"], item["note"]] for item in paper["item"]}
    return write_table(pd.DataFrame(rows, index=["here", "note"]).T)


def write_settings(results, size):
    """Return the training settings of a size."""
    rows = {
        DATA[name]: [
            settings["network"],
            "/".join(str(size) for size in settings["splits"].values()),
            settings["epochs"],
            f"{settings['optimizer']}, one cycle up to {settings['lr']}",
            f"{results.loc[results['data'] == name, 'cpu_seconds'].median():.0f}",
        ]
        for name, settings in read_toml(size)["experiments"].items()
        if name in set(results["data"])
    }
    columns = ["network", "training/validation/calibration", "epochs"]
    columns += ["optimiser", "CPU seconds a run"]
    return write_table(pd.DataFrame(rows, index=columns).T)


def write_versions(results):
    """Return the versions of the software that produced the results."""
    made = {
        name: " and ".join(results[name].unique())
        for name in ("sklearn_calib", "revision", "torch")
    }
    return "Package {sklearn_calib} at {revision}, torch {torch}.".format_map(made)


def write_page():
    """Return the page, by the template in remarks.md."""
    published, small = read_published(), read_results("small")
    medium, chosen = add_tuned(read_results("medium"))
    long_tail = read_long_tail()
    sources = {"medium": only_tuned(medium, chosen), "small": small}
    sources["long tail"] = long_tail
    compared = compare(published[published["metric"].isin(METRICS)], small)
    draw_errors(small, DATA, DOC / "images" / "papers_ece.png")
    headlines = compare_headlines(published, sources)
    draw_ratios(headlines, SHORT, DOC / "images" / "papers_ratios.png")
    settled = settle(sources, published)
    parts = {
        "claims": verdict_table(settled),
        "counts": count_verdicts(settled),
        "medium": write_table(medium_table(medium)),
        "medium_settings": write_settings(medium, "medium"),
        "medium_made": write_versions(medium),
        "sums": write_table(sums_table(small)),
        "long_tail": write_table(long_tail_table(long_tail)),
        "settings": write_settings(small, "small"),
        "made": write_versions(small),
        "protocols": write_table(protocol_table(small)),
        "ood": write_table(ood_table(small, published)),
    }
    if chosen:
        parts["tuned"] = write_table(tuned_table(medium, chosen))
    updates = count_updates({"small": small, "medium": medium}, DATA)
    if updates["updates"].nunique() > 2:
        draw_updates(updates, DOC / "images" / "papers_updates.png")
        parts["updates"] = write_table(updates_table(updates))
    for name, part in small.groupby("data", sort=False):
        parts[f"losses_{name}"] = write_table(losses_table(part))
        parts[f"maps_{name}"] = write_table(maps_table(part, "ece"))
        parts[f"log_loss_{name}"] = write_table(maps_table(part, "nll"))
    for name in PAPERS:
        paper = read_toml(name)
        parts |= {f"{key}_{name}": paper[key] for key in ("reference", "protocol")}
        parts[f"claims_{name}"] = write_table(check_claims(name, published, small))
        parts[f"ratios_{name}"] = ratio_tables(compared[compared["paper"] == name])
        parts[f"items_{name}"] = write_items(paper)
    return (HERE / "page" / "remarks.md").read_text("utf-8").format_map(Parts(parts))


class Parts(dict):
    """Parts of the page, with a placeholder for missing runs."""

    def __missing__(self, name):
        return "Not run yet.\n"


if __name__ == "__main__":
    (DOC / "results_papers.md").write_text(write_page())
