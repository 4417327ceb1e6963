"""Calibration of random forests and gradient boosting on tabular data.

    python benchmarks/studies/bench_trees.py results

The tables are those in the folder `tabular` of the shared data (`SKLEARN_CALIB_DATA`),
without mushrooms, on which trees make no errors, and two of scikit-learn. For each
table, classifier and seed, at most 10,000 rows are used: half to train the classifier,
a quarter to fit the calibrators, and a quarter as the test set. The classifiers have
their default parameters, and calibrators use their logits if available. The calibrators
are also fitted to random parts of `SIZES` samples.

Each result is written as a row to `results/trees.csv`; existing rows are not computed
again. Then prints the log loss of forests and boosting by table, and the mean ranks of
the calibrators for all tables and for those with two classes, with 95 % intervals from
a bootstrap of the tables. Finally prints the mean ranks by number of samples. Uses one
thread.
"""

import argparse
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from bench_public_logits import DATA, measure
from calarena.custom_calibrators import METHODS as MAKERS
from calarena.win_rates import intervals
from helpers.resumable import open_results
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OrdinalEncoder
from threadpoolctl import threadpool_limits

from sklearn_calib._numerics.softmax import softmax
from sklearn_calib._sklearn.response import holds_logits, predict_scores

TABLES = [
    "german_credit",
    "spambase",
    "adult",
    "satimage",
    "segment",
    "pendigits",
    "krkopt",
    "letter",
]
MOST_ROWS = 10_000
SIZES = [50, 200, 1000]  # and all samples of the calibration set
ALL = 0
CLASSIFIERS = {
    "forest": RandomForestClassifier,
    "boosting": HistGradientBoostingClassifier,
}
METHODS = [
    "none",
    "temperature",
    "ensemble_temperature",
    "platt",
    "beta",
    "quadratic_logistic",
    "spline",
    "isotonic",
    "joint_isotonic",
    "venn_abers",
    "joint_beta",
    "dirichlet",
    "vector",
    "structured_vector",
    "structured_matrix",
    "class_temperature",
    "top_label",
    "log_odds_spline",
    "joint_log_odds_spline",
    "joint_beta_eb",
    "structured_matrix_eb",
    "boosting",
    "auto",
]
MEASURES = ["nll", "brier", "ece"]
KEYS = ["table", "classes", "classifier", "seed"]
FIELDS = [*KEYS, "samples", "method", *MEASURES, "errors"]


def read_tables():
    """Yield the name of each table, its features and its encoded labels."""
    for name, load in [("breast_cancer", load_breast_cancer), ("digits", load_digits)]:
        yield name, *load(return_X_y=True)
    for name in TABLES:
        frame = pd.read_csv(DATA / "tabular" / f"{name}.csv.gz")
        X = frame.drop(columns=["target", "split"], errors="ignore")
        words = X.select_dtypes(exclude="number").columns
        X[words] = OrdinalEncoder().fit_transform(X[words])
        y = frame["target"].factorize(sort=True)[0]
        if len(y) > MOST_ROWS:
            X, _, y, _ = train_test_split(
                X, y, train_size=MOST_ROWS, stratify=y, random_state=0
            )
        yield name, X.to_numpy(np.float64), y


def calibrated(method, scores, y, scores_test, from_logits):
    """Return the probabilities of the test set."""
    if method == "none":
        return softmax(scores_test) if from_logits else scores_test
    calibrator = MAKERS[method](from_logits=from_logits)
    calibrator.fit(scores, y, labels=np.arange(scores.shape[1]))
    return calibrator.predict_proba(scores_test)


def run(classifier, X, y, seed):
    """Yield the number of samples, the method, its measures, and the errors."""
    X, X_test, y, y_test = train_test_split(
        X, y, test_size=0.25, stratify=y, random_state=seed
    )
    X, X_rest, y, y_rest = train_test_split(
        X, y, test_size=1 / 3, stratify=y, random_state=seed
    )
    classifier.fit(X, y)
    from_logits = holds_logits(classifier)
    scores, scores_test = (
        predict_scores(classifier, part, from_logits) for part in (X_rest, X_test)
    )
    order = np.random.default_rng(seed).permutation(len(y_rest))
    wrong = scores.argmax(axis=1) != y_rest
    for size in [*SIZES, ALL]:
        if size > len(y_rest):
            continue
        rows = order[:size] if size else slice(None)
        for method in METHODS:
            few = scores[rows], y_rest[rows]
            proba = calibrated(method, *few, scores_test, from_logits)
            measured = measure(proba, y_test)
            yield size, method, *(measured[one] for one in MEASURES), wrong[rows].sum()


def run_all(path, n_seeds):
    """Compute the missing rows."""
    with open_results(path, FIELDS, n_keys=4) as (done, append):
        tables = list(read_tables())
        for seed, table, name in product(range(n_seeds), tables, CLASSIFIERS):
            key = table[0], str(table[2].max() + 1), name, str(seed)
            if key in done:
                continue
            rows = [*run(CLASSIFIERS[name](random_state=seed), *table[1:], seed)]
            for row in rows:
                append([*key, *row])


def mean_ranks(rows, measured):
    """Return the mean rank of each method, and its interval over the tables."""
    ranks = rows.pivot_table(measured, ["table", "seed"], "method").rank(axis=1)
    bounds = intervals(ranks, ranks.index.get_level_values("table"))
    return bounds.assign(mean=ranks.mean())[["mean", "low", "high"]]


def print_tables(path):
    every = pd.read_csv(path)
    pd.set_option(
        "display.width", 200, "display.precision", 3, "display.max_columns", 30
    )
    groups = {}
    for name, rows in every.groupby("classifier", sort=False):
        part = rows[rows["samples"] == ALL]
        shown = part.pivot_table("nll", "method", "table")
        shown["mean"] = shown.mean(axis=1)
        for few, some in [("", part), (", two classes", part[part["classes"] == 2])]:
            for one in MEASURES:
                columns = mean_ranks(some, one).add_prefix(f"rank {one}{few}, ")
                shown = shown.join(columns)
        print(f"\n{name}\n{shown.sort_values('rank nll, mean').to_string()}")
        print(part.groupby("table")["errors"].mean().to_frame("errors").T)
        sizes = dict([*rows.groupby("samples")])
        ranks = {size: mean_ranks(some, "nll") for size, some in sizes.items()}
        ranks = pd.concat(ranks, axis=1)
        losses = rows.pivot_table("nll", "method", "samples")
        print(f"\n{name}, mean rank in log loss\n{ranks.round(1).to_string()}")
        print(f"\n{name}, mean log loss\n{losses.to_string()}")
        groups[name] = ranks.xs("mean", axis=1, level=1)
    means = pd.concat(groups, axis=1).mean(axis=1).sort_values()
    print(f"\nmean rank over classifiers and numbers of samples\n{means.to_string()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    path = args.folder / "trees.csv"
    with threadpool_limits(1):
        run_all(path, args.seeds)
    print_tables(path)


if __name__ == "__main__":
    main()
