"""Folds, repeats and averages of `CalibratedClassifier`, by the number of rows.

    python benchmarks/studies/bench_folds.py FOLDER confirm
    python benchmarks/studies/bench_folds.py FOLDER average_confirm
    python benchmarks/studies/bench_folds.py FOLDER cost

"confirm" compares the default with other folds and with scikit-learn, on data on which
it was not chosen. In the names of candidates, "4 x 2" means four folds drawn twice, and
"one classifier" is the mean of those of `CHOSEN`. All have the default calibrator and,
but for "the default", the pseudo-count of 4 that the prior of the average had before.
"average_confirm" compares the plain mean of the classifiers of `CHOSEN` with averages
that are calibrated with two pseudo-counts, up to 1,000 rows. "|added gap|" is the
absolute difference in confidence - accuracy to "one classifier", which leaves out the
errors of the calibrators. "cost" measures the seconds of fits.

Data are tables of bench_trees.py, some with their first eleven classes, and a synthetic
problem with a rare class. A test set has up to 3,000 rows. Boosting of more than seven
classes is left out above 600 rows, and `SLOW` above 4,000.

Each result is written as a row to `FOLDER/folds_confirm.csv` (or another stage);
existing rows are not computed again. `benchmarks/studies/results` contains them, and
`folds_choose.csv` and `folds_average.csv`, what was tried on other data. Then prints
the means of accuracy, log loss, ECE and confidence - accuracy over all cells (data,
classifier, rows), the mean of the absolute value of the last, and the difference in log
loss to `FINAL[0]` or `EARLIER` and the logarithm of the ratio, with their standard
errors, by rows and by classifier; or, for "cost", the ratio to scikit-learn's time.
Uses one thread.
"""

import argparse
import time
import warnings
from itertools import product
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
from bench_trees import read_tables
from helpers.resumable import open_results
from joblib import Memory
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.metaestimators import available_if
from threadpoolctl import threadpool_limits

from sklearn_calib import CalibratedClassifier
from sklearn_calib._expressions.rows import pool
from sklearn_calib._numerics.softmax import softmax
from sklearn_calib._sklearn.response import holds_logits
from sklearn_calib.estimators._calibrated import average, calibrated
from sklearn_calib.metrics import expected_calibration_error

SIZES = {
    "confirm": {
        "german_credit": [200],
        "segment": [200, 1000],
        "spambase": [200, 1000],
        "letter": [200, 600],
        "krkopt": [600, 1783],
        "pendigits": [200, 1000],
        "rare class": [1000, 4000, 20_000],
    },
    "cost": {"adult": [200, 1000, 4000], "satimage": [200, 1000]},
}
SIZES["average_confirm"] = {
    data: [rows for rows in sizes if rows <= 1000]
    for data, sizes in SIZES["confirm"].items()
}
MODELS = {
    "naive Bayes": lambda _: GaussianNB(),
    "logistic": lambda _: make_pipeline(
        StandardScaler(), LogisticRegression(max_iter=1000)
    ),
    "forest": lambda seed: RandomForestClassifier(random_state=seed),
    "boosting": lambda seed: HistGradientBoostingClassifier(
        max_iter=60, random_state=seed
    ),
    "SVM": lambda seed: make_pipeline(StandardScaler(), LinearSVC(random_state=seed)),
}
CANDIDATES = {
    "3 x 2": {"cv": 3, "n_repeats": 2},
    "4 x 2": {"cv": 4, "n_repeats": 2},
    "5 x 2": {"cv": 5, "n_repeats": 2},
    "ensemble=False, 5": {"cv": 5, "ensemble": False},
}
SLOW = ["forest", "SVM"]  # which are left out for more than 4,000 rows
PEERS = {f"scikit-learn's {name}": name for name in ["sigmoid", "temperature"]}
CHOSEN, DEFAULT, ONE, MEAN = "4 x 2", "the default", "one classifier", "mean"
COUNTS = {f"prior of {count}": count for count in [1, 4]}
EARLIER = "prior of 4"
PLAIN = "no calibration, all rows"
FINAL = ["3 x 2", CHOSEN, DEFAULT, ONE, "ensemble=False, 5", PLAIN, *PEERS]
MEASURES = ["accuracy", "log loss", "ECE", "gap"]
KEYS = ["data", "model", "rows", "seed", "candidate"]


def read(name, tables, seed):
    """Return features and encoded labels; what is drawn depends on the seed."""
    if name == "rare class":
        return make_classification(
            23_000,
            n_features=20,
            n_informative=10,
            weights=[0.95],
            flip_y=0.02,
            random_state=seed,
        )
    X, y = tables[name]
    return X[y < 11], y[y < 11]


def split(X, y, rows, seed):
    """Return the training and the test part, of classes with ten rows for training."""
    keep = np.bincount(y)[y] * rows >= 10 * len(y)
    X, y = X[keep], np.unique(y[keep], return_inverse=True)[1]
    rows = min(rows, len(y) * 2 // 3)
    rest = min(3000, len(y) - rows)
    return train_test_split(
        X, y, train_size=rows, test_size=rest, stratify=y, random_state=seed
    )


def measured(proba, y):
    """Return accuracy, log loss, ECE and confidence - accuracy."""
    proba = proba / proba.sum(axis=1, keepdims=True)
    accuracy = np.mean(proba.argmax(axis=1) == y)
    loss = log_loss(y, proba, labels=np.arange(proba.shape[1]))
    error = expected_calibration_error(y, proba)
    return accuracy, loss, error, proba.max(axis=1).mean() - accuracy


def scores_of(model, X, rows, y):
    """Return what a classifier predicts for X, its classes, and whether as logits."""
    fitted = clone(model).fit(X[rows], y)
    is_logits = holds_logits(fitted)
    if is_logits or not hasattr(fitted, "predict_proba"):
        return fitted.decision_function(X), fitted.classes_, is_logits
    return fitted.predict_proba(X), fitted.classes_, is_logits


class Remembered(ClassifierMixin, BaseEstimator):
    """A classifier of rows of a table, given by number, whose scores are cached."""

    def __init__(self, model, table, memory):
        self.model = model
        self.table = table
        self.memory = memory

    def fit(self, X, y):
        """Train the classifier."""
        cached = Memory(self.memory, verbose=0).cache(scores_of)
        given = self.model, self.table, X[:, 0], y
        self.scores_, self.classes_, self.decision_function_is_logits = cached(*given)
        return self

    @available_if(lambda self: not hasattr(self.model, "predict_proba") or self._logits)
    def decision_function(self, X):
        """Return logits or margins."""
        return self.scores_[X[:, 0]]

    @available_if(lambda self: hasattr(self.model, "predict_proba"))
    def predict_proba(self, X):
        """Return probabilities."""
        scores = self.scores_[X[:, 0]]
        if not self._logits:
            return scores
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros(len(scores)), scores])
        return softmax(scores)

    @property
    def _logits(self):
        return getattr(self, "decision_function_is_logits", False)


def classifier(name, model):
    """Return the calibrated classifier of a candidate."""
    if name == PLAIN:
        return model
    if name in PEERS:
        return CalibratedClassifierCV(model, method=PEERS[name], cv=5)
    return CalibratedClassifier(model, **CANDIDATES.get(name, CANDIDATES[CHOSEN]))


def outcomes(model, names, data, memory):
    """Yield the name and the measures of each candidate."""
    X, X_test, y, y_test = data
    rows = np.arange(len(X) + len(X_test))[:, None]
    remembered = Remembered(model, np.concatenate([X, X_test]), memory)
    for name in names:
        if name == PLAIN and not hasattr(model, "predict_proba"):
            continue
        count = average.PRIOR_COUNT if name == DEFAULT else COUNTS[EARLIER]
        with patch.object(average, "PRIOR_COUNT", count):
            fitted = classifier(name, remembered).fit(rows[: len(X)], y)
        members = fitted.calibrated_classifiers_ if name == ONE else [fitted]
        each = [measured(m.predict_proba(rows[len(X) :]), y_test) for m in members]
        yield name, np.mean(each, axis=0)


def averages(model, names, data, memory):
    """Yield the name and the measures of each average of the same classifiers."""
    X, X_test, y, y_test = data
    rows = np.arange(len(X) + len(X_test))[:, None]
    remembered = Remembered(model, np.concatenate([X, X_test]), memory)
    with patch.object(calibrated, "fit_pool", wraps=average.fit_pool) as spy:
        fitted = classifier(CHOSEN, remembered).fit(rows[: len(X)], y)
    pairs = fitted.calibrated_classifiers_
    members = [pair.predict_proba(rows[len(X) :]) for pair in pairs]
    for name in names:
        if name == ONE:
            each = [measured(member, y_test) for member in members]
            yield name, np.mean(each, axis=0)
        elif name == MEAN:
            yield name, measured(np.mean(members, axis=0), y_test)
        else:
            with patch.object(average, "PRIOR_COUNT", COUNTS[name]):
                weights = average.fit_pool(*spy.call_args.args)
            yield name, measured(pool(members, *weights), y_test)


def seconds(model, names, data, memory):  # noqa: ARG001 - as outcomes
    """Yield the name and the seconds of a fit of each candidate."""
    X, _, y, _ = data
    for name in names:
        if name == PLAIN and not hasattr(model, "predict_proba"):
            continue
        start = time.process_time()
        classifier(name, model).fit(X, y)
        yield name, [time.process_time() - start]


def run_all(folder, stage, n_seeds):
    """Compute the missing rows."""
    tables = {name: (X, y) for name, X, y in read_tables()}
    path = folder / f"folds_{stage}.csv"
    names = {
        "confirm": FINAL,
        "average_confirm": [ONE, MEAN, *COUNTS],
        "cost": [*CANDIDATES, PLAIN, *PEERS],
    }[stage]
    problems = [(rows, data) for data in SIZES[stage] for rows in SIZES[stage][data]]
    measure = averages if stage == "average_confirm" else outcomes
    columns = MEASURES
    if stage == "cost":
        measure, columns = seconds, ["seconds"]
    with open_results(path, [*KEYS, *columns], n_keys=5) as (done, append):
        for seed, (rows, data) in product(range(n_seeds), sorted(problems)):
            parts = split(*read(data, tables, seed), rows, seed)
            for model, make in MODELS.items():
                if rows > 4000 and model in SLOW:
                    continue
                if rows > 600 and model == "boosting" and parts[2].max() > 6:
                    continue
                key = data, model, str(rows), str(seed)
                missing = [name for name in names if (*key, name) not in done]
                memory = folder / "memory"
                if not missing:
                    continue
                for name, values in measure(make(seed), missing, parts, memory):
                    append([*key, name, *values])
    return pd.read_csv(path)


def print_table(results):
    """Print the measures of each candidate."""
    cells = results.groupby([*KEYS[:3], "candidate"])[MEASURES].mean().reset_index()
    table = cells.groupby("candidate")[MEASURES].mean()
    table["mean |gap|"] = cells["gap"].abs().groupby(cells["candidate"]).mean()
    wide = cells.pivot_table("log loss", KEYS[:3], "candidate")
    first = EARLIER if EARLIER in wide else FINAL[0]
    difference = wide.sub(wide[first], axis=0)
    table["difference"], table["se"] = difference.mean(), difference.sem()
    ratio = np.log(wide.div(wide[first], axis=0))
    table["log ratio"], table["its se"] = ratio.mean(), ratio.sem()
    if ONE in wide:
        gaps = cells.pivot_table("gap", KEYS[:3], "candidate")
        added = gaps.sub(gaps[ONE], axis=0).abs()
        table["|added gap|"] = added.mean()
        table["se of its difference"] = added.sub(added[first], axis=0).sem()
    print(len(wide), "cells")
    print(table.sort_values("log loss").round(4).to_string(), "\n")


def print_cost(results):
    """Print the seconds relative to those of scikit-learn's sigmoid."""
    wide = results.pivot_table("seconds", KEYS[:3], "candidate")
    ratio = wide.div(wide["scikit-learn's sigmoid"], axis=0)
    print(ratio.groupby("model").mean().round(2).T.to_string())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("stage", choices=SIZES)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        results = run_all(options.folder, options.stage, options.seeds)
    if options.stage == "cost":
        print_cost(results)
    else:
        print_table(results)
        for column in ["rows", "model"]:
            for value, part in results.groupby(column):
                print(column, value)
                print_table(part)
