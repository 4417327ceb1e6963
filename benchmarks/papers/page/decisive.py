"""Tables of the runs that decide on the claims: medium size and small studies."""

import pandas as pd
from claims import BASELINE, read_toml
from layout import (
    DATA,
    METRICS,
    SHORT,
    as_ratio,
    with_deviation,
    with_interval,
    write_table,
)

# Rows of bench_refcal.py, in the order of the table.
STAGES = ["{}, augmented", "{}", "RefCal, {}", "RefCal, {}, head not augmented"]
LOSSES = ["cross-entropy", "focal", "MbLS", "AdaFocal"]


def verdict_table(settled):
    """Return the verdict on each claim."""
    rows = [
        {
            "": SHORT[row.paper],
            "claim": row.says,
            "paper": as_ratio(row.theirs),
            "here": f"{row.ours:.3f}",
            "95 % interval": f"{row.low:.3f} to {row.high:.3f}",
            "verdict": f"**{row.verdict}**",
            "size": row.size_,
            "seeds": row.seeds,
        }
        for row in settled.rename(columns={"size": "size_"}).itertuples()
    ]
    return write_table(pd.DataFrame(rows).set_index(""))


def count_verdicts(settled):
    """Return a sentence with the number of claims that hold."""
    counts = settled["verdict"].value_counts()
    holds, does_not, cannot = (
        counts.get(name, 0) for name in ("holds", "does not hold", "cannot tell")
    )
    return (
        f"Of {len(settled)} claims, {holds} hold here, {does_not} do not, and for "
        f"{cannot} the runs cannot tell."
    )


def medium_table(results):
    """Return error and ECE of each loss, and ratios to cross-entropy."""
    plain, scaled = (results[results["map"] == m] for m in ("none", "temperature"))
    titles = {"error": "error", "ece": "ECE", "classwise_ece": "class-wise ECE"}
    columns = {
        title: plain.groupby("loss", sort=False)[name].agg(with_deviation)
        for name, title in titles.items()
    }
    for name in ("ece", "classwise_ece"):
        columns[f"{METRICS[name]}, ratio"] = {
            loss: with_interval(loss, results, name) for loss in plain["loss"].unique()
        }
    scaled = scaled.groupby("loss", sort=False)
    columns["temperature"] = scaled["temperature"].agg(with_deviation)
    columns["ECE with this temperature"] = scaled["ece"].agg(with_deviation)
    return pd.DataFrame(columns)


def tuned_table(results, chosen):
    """Return the validation ECE of the candidates, and how often each was chosen."""
    plain = results[results["map"] == "none"]
    valid = plain.groupby("loss")["valid_ece"].agg(lambda x: with_deviation(100 * x))
    test = plain.groupby("loss")["ece"].agg(with_deviation)
    rows = {
        candidate: {
            "validation ECE": valid[candidate],
            "test ECE": test[candidate],
            "chosen in": f"{(best == candidate).sum()} of {len(best)} seeds",
        }
        for loss, best in chosen.items()
        for candidate in read_toml("medium")["tuned"][loss]
    }
    return pd.DataFrame(rows).T


def sums_table(results):
    """Return results of three losses as a mean, and as a sum with clipped gradients."""
    losses = ("cross-entropy", "flsd-53", "adafocal")
    rows = {name: {} for loss in losses for name in (loss, f"{loss}-sum")}
    for data, part in results.groupby("data", sort=False):
        plain = part[part["map"] == "none"]
        for name in rows if set(rows) <= set(plain["loss"]) else ():
            values = plain[plain["loss"] == name]
            baseline = "cross-entropy-sum" if name.endswith("-sum") else BASELINE
            rows[name] |= {
                f"{DATA[data]}, error": with_deviation(values["error"]),
                f"{DATA[data]}, ECE": with_deviation(values["ece"]),
                f"{DATA[data]}, ratio": with_interval(
                    name, part, "ece", higher=baseline
                ),
            }
    return pd.DataFrame(rows).T


def updates_table(updates):
    """Return the ratios by training and number of updates."""
    text = "{ratio:.2f} ({low:.2f} to {high:.2f})"
    cells = [text.format_map(row) for row in updates.to_dict("records")]
    keys = updates[["training", "updates"]].astype(str)
    return keys.assign(**{"ECE, ratio": cells}).set_index("training")


def long_tail_table(results):
    """Return the rows of bench_refcal.py, with ratios to the paper's baseline."""
    titles = {"error": "error", "ece": "ECE", "auc": "AUC"}
    titles |= {"refinement_auc": "refinement AUC"}
    names = results.drop_duplicates("loss").set_index("loss")["row"]
    columns = {
        title: results.groupby("loss", sort=False)[name].agg(with_deviation)
        for name, title in titles.items()
    }
    for name in ("error", "ece"):
        columns[f"{titles[name]}, ratio"] = {
            loss: with_interval(loss, results, name) for loss in names.index
        }
    table = pd.DataFrame(columns).rename(index=names)
    order = [name.format(loss) for name in STAGES for loss in LOSSES]
    return table.loc[[row for row in order if row in table.index]]
