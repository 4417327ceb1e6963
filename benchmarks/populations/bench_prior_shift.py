"""Prior shift: log loss of a classifier after EM, without labels, on real tables.

    python benchmarks/populations/bench_prior_shift.py results
    python benchmarks/populations/bench_prior_shift.py results --experiments prevalence

The tables are those in the folder `tabular` of the shared data (`SKLEARN_CALIB_DATA`).
Half of a table, at most 8,000 rows, trains logistic regression with a calibrator:
`CalibratedClassifier` with five folds. The rest are new data, drawn such that the
classes have the new priors, and split in half: the first half is given without labels
to `PriorShiftClassifier.adapt`, and the second measures the log loss. Compared are

- none: the probabilities without adjustment,
- em: those adjusted to the estimated priors,
- known: those adjusted to the new priors,
- refit: those of the calibrator, fitted again with the labels of the first half.

There are three experiments: `prevalence` trains with a prevalence of 0.5 and tests with
0.1 on adult, each time with other training data; `shift` trains with the frequencies of
the table and tests with 82 random priors, from a Dirichlet distribution with all
parameters equal to 2; `none` has 50 samples of new data without a shift, of which 1,000
to 5,000 rows are given to `adapt`, and all others measure the log loss. Each result is
a row of `results/prior_shift.csv`; existing rows are not computed again. Then prints
the means and the ratios of the log loss of em to that of the others.

The estimated classwise ECE is positive even if the probabilities are true: `ece_least`
is that of em for labels drawn from em. Uses one thread.
"""

import argparse
import sys
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from sklearn_calib import CalibratedClassifier
from sklearn_calib.calibrators import (
    PlattScaling,
    StructuredVectorScaling,
    TemperatureScaling,
    VectorScaling,
)
from sklearn_calib.deployment import PriorShiftClassifier, adjust_priors
from sklearn_calib.metrics import expected_calibration_error

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
from bench_trees import DATA
from helpers.resumable import add_missing

# Mushroom is left out, as its classes are separable.
TABLES = ["german_credit", "spambase", "satimage", "segment", "krkopt"]
SHIFTS = {"adult": 20, "pendigits": 16, "letter": 16} | dict.fromkeys(TABLES, 6)
LARGE = ["spambase", "satimage", "pendigits", "letter", "krkopt"]
UNSHIFTED = {"adult": 10} | dict.fromkeys(LARGE, 8)
CALIBRATORS = {
    "temperature": TemperatureScaling(),
    "vector": VectorScaling(),
    "structured_vector": StructuredVectorScaling(lambd=1.0),
    # A temperature, then an intercept for each class.
    "intercepts": StructuredVectorScaling(lambd=1.0, diagonal=1e6, intercept=1e-6),
}
FIELDS = [
    *("experiment", "table", "calibrator", "draw", "n_classes", "n_given", "n_test"),
    *(
        "none",
        "em",
        "known",
        "refit",
        "ece_none",
        "ece_em",
        "ece_refit",
        "ece_least",
        "error",
        "covered",
        "warns",
    ),
]
N_TRAIN = 8000
PER_SPLIT = 5  # draws for each split of a table and each training


@cache
def read_table(name):
    """Return the features and the codes of the classes."""
    frame = pd.read_csv(DATA / "tabular" / f"{name}.csv.gz")
    frame = frame.drop(columns="split", errors="ignore")
    return frame.drop(columns="target"), pd.factorize(frame["target"], sort=True)[0]


def draw_rows(y, priors, rng, most=None):
    """Return the rows of a random sample with given class frequencies."""
    members = [rng.permutation(np.flatnonzero(y == k)) for k in range(len(priors))]
    size = min(len(m) / p for m, p in zip(members, priors, strict=True))
    size = min(size, most or size)
    rows = [m[: int(size * p)] for m, p in zip(members, priors, strict=True)]
    return rng.permutation(np.concatenate(rows))


@cache
def train(name, calibrator, split, prevalence):
    """Return a trained classifier, and the rows that are left."""
    X, y = read_table(name)
    rng = np.random.default_rng(split)
    half = rng.permutation(len(y))[: len(y) // 2]
    priors = np.bincount(y[half]) / len(half)
    if prevalence is not None:
        priors = np.array([1 - prevalence, prevalence])
    rows = half[draw_rows(y[half], priors, rng, N_TRAIN)]
    names = make_column_selector(dtype_exclude="number")
    features = make_column_transformer(
        (OneHotEncoder(min_frequency=20, handle_unknown="ignore"), names),
        remainder=StandardScaler(),
    )
    base = make_pipeline(features, LogisticRegression(max_iter=1000))
    model = CalibratedClassifier(base, clone(CALIBRATORS[calibrator]))
    if len(priors) == 2 and calibrator != "temperature":
        model.set_params(calibrator=PlattScaling())
    model.fit(X.iloc[rows], y[rows])
    rest = np.setdiff1d(np.arange(len(y)), half)
    return model, X.iloc[rest], y[rest], X.iloc[rows], y[rows]


def measure(experiment, name, calibrator, draw):
    """Return the results of one draw."""
    prevalence, split = None, draw // PER_SPLIT
    if experiment == "prevalence":
        prevalence, split = 0.5, draw
    data = train(name, calibrator, split, prevalence)
    model, X, y, X_train, y_train = data
    n_classes, labels = len(model.classes_), np.arange(len(model.classes_))
    rng = np.random.default_rng([draw, n_classes])
    priors = np.bincount(y, minlength=n_classes) / len(y)
    if experiment == "shift":
        priors = rng.dirichlet(np.full(n_classes, 2.0))
    if experiment == "prevalence":
        priors = np.array([0.9, 0.1])
    rows = rng.permutation(len(y)) if experiment == "none" else None
    rows = draw_rows(y, priors, rng) if rows is None else rows
    n_given = len(rows) // 2
    if experiment == "none":
        n_given = int(rng.integers(1000, min(5000, len(y) // 2) + 1))
    given, test = rows[:n_given], rows[n_given:]
    shift = PriorShiftClassifier(FrozenEstimator(model), random_state=0)
    shift.fit(X_train, y_train)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        shift.adapt(X.iloc[given])
    y_test, proba = y[test], model.predict_proba(X.iloc[test])
    plain = model.uncalibrated()
    refit = clone(model.calibrated_classifiers_[0].calibrator)
    refit.set_params(from_logits=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refit.fit(plain.predict_proba(X.iloc[given]), y[given], labels=labels)
    probas = {
        "none": proba,
        "em": shift.predict_proba(X.iloc[test]),
        "known": adjust_priors(proba, shift.train_priors_, priors),
        "refit": refit.predict_proba(plain.predict_proba(X.iloc[test])),
    }
    losses = [log_loss(y_test, each, labels=labels) for each in probas.values()]
    low, high = shift.priors_interval_.T
    uniform = rng.uniform(size=(len(test), 1))
    drawn = (probas["em"].cumsum(axis=1) > uniform).argmax(axis=1)
    pairs = [(y_test, key) for key in ("none", "em", "refit")] + [(drawn, "em")]
    ece = [
        expected_calibration_error(y, probas[key], labels=labels, mode="classwise")
        for y, key in pairs
    ]
    error = abs(shift.priors_ - priors).max()
    covered = np.mean((low <= priors) & (priors <= high))
    sizes = n_classes, len(given), len(test)
    return [*sizes, *losses, *ece, error, covered, len(caught)]


def tasks():
    """Yield the experiment, table, calibrator and number of each draw."""
    for draw in range(20):
        yield "prevalence", "adult", "vector", draw
    for experiment, tables in {"shift": SHIFTS, "none": UNSHIFTED}.items():
        for name, n_draws in tables.items():
            is_binary = name in {"adult", "german_credit", "spambase"}
            for calibrator in ["vector", "temperature"] if is_binary else CALIBRATORS:
                for draw in range(n_draws):
                    yield experiment, name, calibrator, draw


def report(path):
    """Print means, and ratios of the log loss of em to that of the others."""
    results = pd.read_csv(path)
    for each in ("none", "known", "refit"):
        results[f"em/{each}"] = results["em"] / results[each]
    keys = ["experiment", "table", "calibrator"]
    columns = ["n_classes", *FIELDS[5:17], "em/none", "em/known", "em/refit", "warns"]
    print(results.groupby(keys)[columns].mean().round(4).to_string())
    for least in (0, 1000):
        print(f"\nwith at least {least} rows given to adapt")
        print(summary(results[results["n_given"] >= least]).round(3).to_string())


def summary(results):
    """Return the fractions of draws that are close to others, and mean ratios."""
    grouped = results.groupby(["experiment", "calibrator"])
    return pd.DataFrame(
        {
            "draws": grouped.size(),
            "<= 1.01 none": grouped["em/none"].apply(lambda r: (r <= 1.01).mean()),
            "<= 1.02 refit": grouped["em/refit"].apply(lambda r: (r <= 1.02).mean()),
            "em/none": grouped["em/none"].mean(),
            "em/known": grouped["em/known"].mean(),
            "em/refit": grouped["em/refit"].mean(),
            "covered": grouped["covered"].mean(),
            "warned": grouped["warns"].apply(lambda w: (w > 0).mean()),
        }
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    names = ["prevalence", "shift", "none"]
    parser.add_argument("--experiments", nargs="+", choices=names, default=names)
    args = parser.parse_args()
    path = args.folder / "prior_shift.csv"
    wanted = [task for task in tasks() if task[0] in args.experiments]
    with threadpool_limits(1):
        add_missing(path, FIELDS, wanted, measure)
    report(path)


if __name__ == "__main__":
    main()
