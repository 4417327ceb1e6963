"""Calibrators behind forests and boosting, on tables.

    python benchmarks/bench_trees.py results

The tables are those of the folder `tabular` of the shared data (`SKLEARN_CALIB_DATA`),
but for mushrooms, on which no tree errs, and two of scikit-learn. For each table,
classifier and seed, a half of at most 10,000 rows trains the classifier, a quarter
fits the calibrators and a quarter is the test set; and, with `--folds`, three quarters
train and calibrate in five folds, whose classifiers and calibrators are averaged as
`CalibratedClassifier(cv=5)` does. The classifiers have their default parameters; their
logits are used where they have them.

Writes a row for each to `results/trees.csv`; rows that are there already are not run
again. Then prints for forests and boosting, held out and in folds, the mean ranks of
the calibrators, and the mean log loss by table. One thread.
"""

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from bench_public_logits import DATA, measure
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import OrdinalEncoder
from threadpoolctl import threadpool_limits

from sklearn_calib._core.links import softmax
from sklearn_calib._core.predicted_scores import holds_logits, predict_scores
from sklearn_calib.calibrators import get_calibrator

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
]
MEASURES = ["nll", "brier", "ece"]
FIELDS = ["table", "classifier", "protocol", "seed", "method", *MEASURES, "errors"]


def read_tables():
    """Yield the name of each table, its features and the codes of its labels."""
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
    calibrator = get_calibrator(method)(from_logits=from_logits)
    calibrator.fit(scores, y, labels=np.arange(scores.shape[1]))
    return calibrator.predict_proba(scores_test)


def run(classifier, X, y, splits, X_test, y_test):
    """Return the errors to fit to in a split, and the measures of each method."""
    total, errors = dict.fromkeys(METHODS, 0), []
    for train, rest in splits:
        classifier.fit(X[train], y[train])
        from_logits = holds_logits(classifier)
        scores, scores_test = (
            predict_scores(classifier, part, from_logits) for part in (X[rest], X_test)
        )
        errors.append(np.sum(scores.argmax(axis=1) != y[rest]))
        for method in METHODS:
            total[method] = total[method] + calibrated(
                method, scores, y[rest], scores_test, from_logits
            )
    return np.mean(errors), {
        method: measure(proba / len(splits), y_test) for method, proba in total.items()
    }


def make_splits(protocol, X, y, seed):
    """Return the pairs of rows to train on and to calibrate on."""
    if protocol == "held out":
        rows = np.arange(len(y))
        return [train_test_split(rows, test_size=1 / 3, stratify=y, random_state=seed)]
    return list(StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y))


def run_all(path, protocols, seeds):
    """Add the rows that are missing."""
    is_new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    done = set() if is_new else {tuple(row[:4]) for row in csv.reader(path.open())}
    with path.open("a", newline="") as file:
        writer = csv.writer(file)
        if is_new:
            writer.writerow(FIELDS)
        tables = list(read_tables())
        cases = [(p, seed) for p in protocols for seed in range(seeds[p])]
        for protocol, seed in cases:
            for table, X, y in tables:
                for name, kind in CLASSIFIERS.items():
                    key = table, name, protocol, str(seed)
                    if key in done:
                        continue
                    X_fit, X_test, y_fit, y_test = train_test_split(
                        X, y, test_size=0.25, stratify=y, random_state=seed
                    )
                    errors, rows = run(
                        kind(random_state=seed),
                        *(X_fit, y_fit, make_splits(protocol, X_fit, y_fit, seed)),
                        *(X_test, y_test),
                    )
                    for method, row in rows.items():
                        values = [row[one] for one in MEASURES]
                        writer.writerow([*key, method, *values, errors])
                    file.flush()


def print_tables(path):
    rows = pd.read_csv(path)
    pd.set_option("display.width", 200, "display.precision", 3)
    for (protocol, name), part in rows.groupby(["protocol", "classifier"], sort=False):
        by_table = part.pivot_table(index="method", columns="table", values="nll")
        by_table["mean"] = by_table.mean(axis=1)
        for measure_name in MEASURES:
            wide = part.pivot_table(
                index="method", columns=["table", "seed"], values=measure_name
            )
            by_table[f"rank {measure_name}"] = wide.rank().mean(axis=1)
        print(f"\n{name}, {protocol}\n{by_table.sort_values('rank nll')}")
        print(part.groupby("table")["errors"].mean().to_frame("errors").T)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=5, help="of the held-out protocol")
    parser.add_argument("--folds", type=int, default=0, help="seeds of that in folds")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    path = args.folder / "trees.csv"
    seeds = {"held out": args.seeds, "folds": args.folds}
    with threadpool_limits(1):
        run_all(path, seeds, seeds)
    print_tables(path)


if __name__ == "__main__":
    main()
