"""Calibration of margins with more than two classes, by several maps.

    python benchmarks/studies/bench_margins.py FOLDER choose
    python benchmarks/studies/bench_margins.py FOLDER confirm

"choose" compares candidates on one half of the data sets, and "confirm" compares the
default of `CalibratedClassifier`, "auto", with those of `FINAL` on the other half. The
default is "vector, default and one-vs-rest", and was "one-vs-rest, averaged". The
classifiers are LinearSVC, RidgeClassifier and SVC (one-vs-rest). Data are tables of the
shared data (`SKLEARN_CALIB_DATA`), digits with noise, wine, intents of CLINC150 and
postings of 20 Newsgroups (tf-idf), and synthetic problems with wrong labels. A test set
has up to 4,000 rows.

Each result is written as a row to `FOLDER/margins_choose.csv` (or confirm); existing
rows are not computed again. `benchmarks/studies/results` contains them. Then prints
the means of accuracy, log loss, ECE and confidence - accuracy over all cells (data,
classifier, rows), the mean of the absolute value of the last, and the difference in log
loss to LogisticRegression with its standard error; then the same for cells of at least
1,000 rows. Matrix scaling with `lambd="cv"` is left out for more than 20 classes: only
its difference can be compared. Uses one thread.
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
from sklearn.datasets import load_digits, load_wine, make_classification
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from sklearn_calib import CalibratedClassifier
from sklearn_calib._numerics.softmax import log_softmax
from sklearn_calib.calibrators import (
    AutoCalibrator,
    IsotonicCalibration,
    MatrixScaling,
    PlattScaling,
    QuadraticLogisticCalibration,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    TemperatureScaling,
    VectorScaling,
    VennAbers,
)
from sklearn_calib.calibrators._combined.auto import defaults
from sklearn_calib.estimators._calibrated.fold_calibrators import MarginCalibrator

SIZES = [300, 1000, 3000]
DATA_SETS = {
    "choose": {
        "noisy digits": [300, 1000],
        "satimage": SIZES,
        "3 classes": SIZES,
        "40 classes": [1000],
        "newsgroups": [1000],
    },
    "confirm": {
        "wine": [90],
        "letter": [1000, 3000],
        "pendigits": SIZES,
        "krkopt": SIZES,
        "10 classes": SIZES,
        "intents": [3000],
    },
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


class Joint(ClassifierMixin, BaseEstimator):
    """Calibrators of all margins, one after the other, as a classifier of margins."""

    def __init__(self, *steps):
        self.steps = steps

    def get_params(self, deep=True):  # noqa: ARG002 - see the parent
        return {}

    def __sklearn_clone__(self):
        return type(self)(*self.steps)

    def fit(self, margins, y):
        """Fit each calibrator to the result of the one before."""
        self.classes_ = np.unique(y)
        self.scale_ = np.abs(margins).max()
        self.steps_ = []
        for step in self.steps:
            scores = self._scores(margins)
            if isinstance(step, MarginCalibrator):
                fitted = MarginCalibrator(clone(step.calibrator))
                fitted._fit_without_warnings(scores, y, None, self.classes_)
            else:
                fitted = clone(step).set_params(from_logits=True).fit(scores, y)
            self.steps_.append(fitted)
        return self

    def _scores(self, margins):
        scores = margins / self.scale_
        for step in self.steps_:
            scores = np.log(np.maximum(step.predict_proba(scores), 1e-300))
        return scores

    def predict_proba(self, margins):
        """Return the probabilities of the last calibrator."""
        return np.exp(log_softmax(self._scores(margins)))


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


EMPIRICAL = VectorScaling(penalty="empirical_bayes")
OFFSETS = AutoCalibrator([TemperatureScaling()], prior_odds=None)
ALL = AutoCalibrator(
    [*(each.calibrator for each in defaults(3)), IsotonicCalibration(), VennAbers()]
)
CALIBRATORS = {
    "one-vs-rest, averaged": one_vs_rest(),
    "the same, temperature": Joint(
        MarginCalibrator(one_vs_rest()), TemperatureScaling()
    ),
    "the same, default": Joint(MarginCalibrator(one_vs_rest()), AutoCalibrator()),
    "PlattScaling()": PlattScaling(),
    REFERENCE: LogisticRegression(),
    "temperature": Joint(TemperatureScaling()),
    "temperature, offsets": Joint(OFFSETS),
    "vector": Joint(EMPIRICAL),
    "structured vector": Joint(StructuredVectorScaling()),
    "structured matrix": Joint(StructuredMatrixScaling()),
    "matrix, lambd by cv": Joint(MatrixScaling(penalty="l2")),
    "joint maps, averaged": Joint(AutoCalibrator(prior_odds=None)),
    "temperature, default": Joint(TemperatureScaling(), AutoCalibrator()),
    "offsets, default": Joint(OFFSETS, AutoCalibrator()),
    "vector, default": Joint(EMPIRICAL, AutoCalibrator()),
    "temperature, default and one-vs-rest": Joint(TemperatureScaling(), ALL),
    "offsets, default and one-vs-rest": Joint(OFFSETS, ALL),
    "vector, default and one-vs-rest": Joint(EMPIRICAL, ALL),
}
PEERS = {f"scikit-learn's {each}": each for each in ["sigmoid", "temperature"]}
FINAL = ["one-vs-rest, averaged", REFERENCE, *PEERS]


def read(name):
    """Return features and encoded labels."""
    if name == "noisy digits":
        X, y = load_digits(return_X_y=True)
        return X + np.random.default_rng(0).normal(scale=6, size=X.shape), y
    if name == "wine":
        X, y = load_wine(return_X_y=True)
        return X[:, :5], y
    if name.endswith("classes"):
        n_classes = int(name.split()[0])
        return make_classification(
            n_samples=7000,
            n_features=30,
            n_informative=12,
            n_classes=n_classes,
            n_clusters_per_class=1 if n_classes == 40 else 2,
            flip_y=0.1,
            random_state=n_classes,
        )
    if name == "intents":
        frame = pd.read_csv(DATA / "text" / "clinc150_full_oos.csv.gz")
        frame = frame[(frame["label"] >= 0) & (frame["label"] < 77)]
        return TfidfVectorizer().fit_transform(frame["text"]), frame["label"].to_numpy()
    if name == "newsgroups":
        frame = pd.read_csv(DATA / "text" / "20news_bydate_train.csv.gz")
        frame = frame.sample(7000, random_state=0)
        body = frame["text"].str.partition("\t\t")[2]  # without the headers
        vectors = TfidfVectorizer(min_df=3, stop_words="english")
        return vectors.fit_transform(body), frame["label"].to_numpy()
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


def run_all(folder, stage, chosen):
    """Compute the missing rows."""
    path = folder / f"margins_{stage}.csv"
    names = ["auto", *FINAL] if stage == "confirm" else [*CALIBRATORS, *PEERS]
    with open_results(path, FIELDS, n_keys=4) as (done, append):
        for data, sizes in DATA_SETS[stage].items():
            if chosen and data not in chosen:
                continue
            table = read(data)
            for rows, (model, make) in product(sizes, MODELS.items()):
                X, X_test, y, y_test = split(*table, rows)
                for name in names:
                    key = data, model, str(rows), name
                    is_slow = name.startswith("matrix") and y.max() >= 20
                    if key in done or is_slow:
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
    parser.add_argument("stage", choices=DATA_SETS)
    parser.add_argument("--data", nargs="*", help="only these sets")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        results = run_all(options.folder, options.stage, options.data)
    print_table(results)
    print_table(results[results["rows"] >= 1000])
