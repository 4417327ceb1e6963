"""Compare the entries with CalArena's methods, on the experiments that were run.

    python benchmarks/studies/calarena/compare.py CALARENA/results RESULTS
    python benchmarks/studies/calarena/compare.py CALARENA/results --trees

The first folder is that of CalArena's checkout, the second one the `--results_dir` of
`run_benchmark.py`, which must have the results of "Base-model", too. Their equality
shows that the inputs are the same. Prints a table for each benchmark: the Brier score
and log loss, averaged over the experiments, and the win rates against the field.

With `--trees`, prints CalArena's published results behind the forests and the boosting
of `tabrepo-binary`: for each method the median decrease of the log loss by calibration,
in percent, the mean log loss, and the win rate with its 95 % bootstrap interval.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from win_rates import intervals, win_shares

BASE = "Base-model"
ABLATION = "CB"  # variants of CatBoost that are not in CalArena's tables
KEYS = ["dataset", "model"]
TREES = {
    "forests": ["RandomForest", "ExtraTrees"],
    "boosting": ["CatBoost", "LightGBM", "XGBoost"],
}


def read(folder, measured):
    """Return a table of a measure with a column for each method in the folder."""
    columns = {
        path.stem: pd.read_csv(path, index_col=KEYS)[f"{path.stem}_{measured}"]
        for path in sorted(folder.glob("*.csv"))
        if path.stem.partition("-")[0] != ABLATION
    }
    return pd.DataFrame(columns)


def compare(published, run, measured):
    """Return the mean of a measure and the win rate of all methods and entries."""
    field, entries = read(published, measured), read(run, measured)
    field = field.loc[entries.index]
    if not np.allclose(field[BASE], entries[BASE], rtol=1e-12, atol=0):
        raise ValueError(f"the inputs of {run.name} are not those of CalArena")
    values = field.join(entries.drop(columns=field.columns, errors="ignore"))
    rates = win_shares(values, list(field)).mean()
    return values.mean().to_frame(measured).assign(**{f"{measured} win rate": rates})


def behind(values, models):
    """Return the median gain, mean and win rate of the methods behind some models."""
    values = values[values.index.isin(models, level="model")]
    gain = 100 * (1 - values.div(values[BASE], axis=0)).median()
    shares = win_shares(values)
    table = pd.DataFrame({"median gain, %": gain, "mean": values.mean()})
    table["win rate"] = shares.mean()
    table["place"] = table["win rate"].rank(ascending=False, method="min")
    return table.join(intervals(shares, values.index.get_level_values("dataset")))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("published", type=Path)
    parser.add_argument("results", type=Path, nargs="?")
    parser.add_argument("--trees", action="store_true")
    args = parser.parse_args()
    if args.results is None and not args.trees:
        parser.error("pass results, or --trees")
    if args.trees:
        values = read(args.published / "tabrepo-binary", "logloss")
        for name, models in TREES.items():
            table = behind(values, models).sort_values("median gain, %")
            print(f"\n{name}\n{table[::-1].to_string(float_format='%.3f')}")
        return
    for run in sorted(args.results.iterdir()):
        folder = args.published / run.name
        tables = [compare(folder, run, name) for name in ("brier", "logloss")]
        table = pd.concat(tables, axis=1).sort_values("brier")
        print(f"\n{run.name}, {len(read(run, 'brier'))} experiments")
        print(table.to_string(float_format="%.6f"))


if __name__ == "__main__":
    main()
