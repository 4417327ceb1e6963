"""Margins of more than two classes, calibrated by `CalibratedClassifier` and others.

    python benchmarks/studies/bench_margins.py FOLDER

Compares the default of `CalibratedClassifier`, "auto", with its earlier default,
"one-vs-rest, averaged", on data on which it was not chosen. The classifiers are
LinearSVC, RidgeClassifier and SVC (one-vs-rest). Data are tables of the shared data
(`SKLEARN_CALIB_DATA`), wine, intents of CLINC150 (tf-idf), and a synthetic problem with
wrong labels. A test set has up to 4,000 rows.

Each result is written as a row to `FOLDER/margins_confirm.csv`; existing rows are not
computed again. `benchmarks/studies/results` contains it, and `margins_choose.csv`, the
candidates among which the default was chosen on other data. Then prints the means of
accuracy, log loss, ECE and confidence - accuracy over all cells (data, classifier,
rows), the mean of the absolute value of the last, and the difference in log loss to
LogisticRegression with its standard error; then the same for cells of at least 1,000
rows. Uses one thread.
"""

import argparse
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from bench_folds import measured
from bench_public_logits import DATA
from helpers.resumable import open_results
from joblib import Memory
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_wine, make_classification
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from sklearn_calib import CalibratedClassifier
from sklearn_calib.calibrators import (
    AutoCalibrator,
    IsotonicCalibration,
    PlattScaling,
    QuadraticLogisticCalibration,
    VennAbers,
)

SIZES = [300, 1000, 3000]
DATA_SETS = {
    "wine": [90],
    "letter": [1000, 3000],
    "pendigits": SIZES,
    "krkopt": SIZES,
    "10 classes": SIZES,
    "intents": [3000],
}
MODELS = {
    "LinearSVC": lambda: LinearSVC(random_state=0),
    "Ridge": RidgeClassifier,
    "SVC": SVC,
}
ONE_VS_REST = [
    PlattScaling(),
    QuadraticLogisticCalibration(),
    IsotonicCalibration(),
    VennAbers(),
]
MEASURES = ["accuracy", "log loss", "ECE", "gap"]
FIELDS = ["data", "model", "rows", "candidate", *MEASURES]
REFERENCE = "LogisticRegression()"


class Remembering(ClassifierMixin, BaseEstimator):
    """A classifier whose margins are kept in a cache."""

    def __init__(self, classifier, memory):
        self.classifier = classifier
        self.memory = memory

    def fit(self, X, y):
        """Train the classifier."""
        self.classifier_ = clone(self.classifier).fit(X, y)
        self.classes_ = self.classifier_.classes_
        return self

    def decision_function(self, X):
        """Return the margins."""
        return Memory(self.memory, verbose=0).cache(margins_of)(self.classifier_, X)


def margins_of(classifier, X):
    """Return the margins of a fitted classifier."""
    return classifier.decision_function(X)


def one_vs_rest():
    """Return the average of one-vs-rest maps."""
    return AutoCalibrator(
        [clone(each).set_params(from_logits=True) for each in ONE_VS_REST],
        prior_odds=None,
        from_logits=True,
    )


CALIBRATORS = {"one-vs-rest, averaged": one_vs_rest(), REFERENCE: LogisticRegression()}
PEERS = {f"scikit-learn's {each}": each for each in ["sigmoid", "temperature"]}
CANDIDATES = ["auto", *CALIBRATORS, *PEERS]


def read(name):
    """Return features and encoded labels."""
    if name == "wine":
        X, y = load_wine(return_X_y=True)
        return X[:, :5], y
    if name == "10 classes":
        return make_classification(
            n_samples=7000,
            n_features=30,
            n_informative=12,
            n_classes=10,
            flip_y=0.1,
            random_state=10,
        )
    if name == "intents":
        frame = pd.read_csv(DATA / "text" / "clinc150_full_oos.csv.gz")
        frame = frame[(frame["label"] >= 0) & (frame["label"] < 77)]
        return TfidfVectorizer().fit_transform(frame["text"]), frame["label"].to_numpy()
    frame = pd.read_csv(DATA / "tabular" / f"{name}.csv.gz")
    X = frame.drop(columns=["target", "split"], errors="ignore").to_numpy(np.float64)
    return X, frame["target"].factorize(sort=True)[0]


def split(X, y, rows):
    """Return the training and the test part, of classes with six rows for training."""
    keep = np.bincount(y)[y] * rows >= 6 * len(y)
    X, y = X[keep], np.unique(y[keep], return_inverse=True)[1]
    rest = min(4000, len(y) - rows)
    return train_test_split(
        X, y, train_size=rows, test_size=rest, stratify=y, random_state=0
    )


def classifier(make, name, sparse, memory):
    """Return the calibrated classifier of a candidate."""
    model = make() if sparse else make_pipeline(StandardScaler(), make())
    model = Remembering(model, memory)
    if name in PEERS:
        return CalibratedClassifierCV(model, method=PEERS[name])
    if name == "auto":
        return CalibratedClassifier(model, cv=3, memory=memory)
    return CalibratedClassifier(model, CALIBRATORS[name], cv=3, memory=memory)


def run_all(folder, chosen):
    """Compute the missing rows."""
    path = folder / "margins_confirm.csv"
    with open_results(path, FIELDS, n_keys=4) as (done, append):
        for data, sizes in DATA_SETS.items():
            if chosen and data not in chosen:
                continue
            table = read(data)
            for rows, (model, make) in product(sizes, MODELS.items()):
                X, X_test, y, y_test = split(*table, rows)
                for name in CANDIDATES:
                    key = data, model, str(rows), name
                    if key in done:
                        continue
                    memory = str(folder / "memory")
                    fitted = classifier(
                        make, name, not isinstance(X, np.ndarray), memory
                    )
                    proba = fitted.fit(X, y).predict_proba(X_test)
                    append([*key, *measured(proba, y_test)])
    return pd.read_csv(path)


def print_table(results):
    """Print the measures of each candidate."""
    table = results.groupby("candidate")[MEASURES].mean()
    table["mean |gap|"] = results["gap"].abs().groupby(results["candidate"]).mean()
    cells = results.pivot_table("log loss", ["data", "model", "rows"], "candidate")
    difference = cells.sub(cells[REFERENCE], axis=0)
    table["difference"], table["se"] = difference.mean(), difference.sem()
    print(len(cells), "cells")
    print(table.sort_values("log loss").round(4).to_string(), "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", nargs="*", help="only these sets")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        results = run_all(options.folder, options.data)
    print_table(results)
    print_table(results[results["rows"] >= 1000])
