"""Cost of `AutoCalibrator` as a multiple of its slowest calibrator, and its quality.

    python benchmarks/speed/bench_auto_cost.py FILE.csv
    python benchmarks/speed/bench_auto_cost.py FILE.csv --default

Fits to the calibration set of each file of bench_public_logits.py, and to 200 and 1000
of its samples. Data with more classes are the logits of classifiers of short texts with
150 classes, and of simulated networks with 200 and 1000 classes: a linear last layer
whose class vectors have clusters, with errors of each class.

Writes a row for each data set, size and draw: the CPU seconds of `AutoCalibrator` and
of the slowest of its calibrators, log loss and ECE on the test set. Existing rows are
not computed again. Then prints quartiles of the ratio of the times. Every second data
set has the half "choose": settings are chosen with these, and confirmed once with the
others.

With `--default`, writes the CPU seconds of `fit` of `CalibratedClassifier(classifier)`
and of scikit-learn's `CalibratedClassifierCV(classifier)`, and their ratio, for five
classifiers with their default parameters on data sets of scikit-learn. Uses one thread.
"""

import argparse
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from sklearn_calib import CalibratedClassifier
from sklearn_calib.calibrators import AutoCalibrator
from sklearn_calib.metrics import expected_calibration_error

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
from bench_public_logits import DATA, read_data
from helpers.resumable import add_missing

# Numbers of calibration samples, None for all, and of draws.
SIZES = {200: 3, 1000: 2, None: 1}
HALVES = ["choose", "confirm"]
FIELDS = ["half", "data", "samples", "draw"]
FIELDS += ["classes", "errors", "seconds", "slowest", "ratio", "nll", "ece"]
N_CALIBRATION = 5000
# Standard deviation of the features around the vector of their class, which determines
# the accuracy: about 0.65 and 0.98 for 1000 classes.
NOISES = [2.6, 1.5]

CLASSIFIERS = {
    "naive Bayes": GaussianNB(),
    "SVM": make_pipeline(StandardScaler(), SVC()),
    "boosting": HistGradientBoostingClassifier(random_state=0),
    "forest": RandomForestClassifier(random_state=0),
    "network": make_pipeline(StandardScaler(), MLPClassifier(random_state=0)),
}
TABLES = {"breast_cancer": load_breast_cancer, "digits": load_digits}


def read_texts():
    """Yield the names, calibration and test sets of classifiers of 150 intents."""
    frame = pd.read_csv(DATA / "text" / "clinc150_full_oos.csv.gz")
    frame = frame[frame["label"] >= 0]
    is_train = frame["split"] == "train"
    words = TfidfVectorizer(min_df=2, ngram_range=(1, 2), sublinear_tf=True)
    X = words.fit_transform(frame["text"][is_train])
    y = frame["label"][is_train]
    rest = words.transform(frame["text"][~is_train])
    y_rest = frame["label"][~is_train].to_numpy()
    order = np.random.default_rng(0).permutation(len(y_rest))
    rest, y_rest = rest[order], y_rest[order]
    n = N_CALIBRATION
    for classifier in (
        LogisticRegression(C=10),
        MultinomialNB(alpha=0.1),
        LogisticRegression(C=300, max_iter=300),
        MLPClassifier(64, max_iter=15, random_state=0),
    ):
        log_proba = classifier.fit(X, y).predict_log_proba(rest)
        name = f"clinc150_{type(classifier).__name__}"
        name += f"_{classifier.C}" if hasattr(classifier, "C") else ""
        yield name, True, log_proba[:n], y_rest[:n], log_proba[n:], y_rest[n:]


def simulate(n_classes, noise, seed):
    """Return overconfident logits of a linear last layer, and labels."""
    rng = np.random.default_rng(seed)
    clusters = rng.normal(size=(n_classes // 20, 64))
    means = clusters[rng.integers(len(clusters), size=n_classes)]
    means += 0.9 * rng.normal(size=means.shape)
    y = rng.integers(n_classes, size=2 * N_CALIBRATION)
    features = means[y] + noise * rng.normal(size=(len(y), 64))
    logits = (features @ means.T - (means**2).sum(axis=1) / 2) / noise**2
    logits *= 1.7 * np.exp(0.1 * rng.normal(size=n_classes))
    return logits + 0.3 * rng.normal(size=n_classes), y


def read_simulated():
    """Yield the names, calibration and test sets of simulated networks."""
    n = N_CALIBRATION
    for noise in NOISES:
        for n_classes in (200, 1000):
            for seed in range(2):
                X, y = simulate(n_classes, noise, seed)
                name = f"simulated_{n_classes}_{noise}_{seed}"
                yield name, True, X[:n], y[:n], X[n:], y[n:]


def read_all():
    """Yield the half of each data set, its name, and its calibration and test sets."""
    for read in (read_data, read_texts, read_simulated):
        for i, data in enumerate(read()):
            yield HALVES[i % 2], *data


def seconds_of(fit):
    start = time.process_time()
    fit()
    return time.process_time() - start


def measure(data, size, draw):
    """Return the other fields of a row."""
    from_logits, X, y, X_test, y_test = data
    labels = np.arange(X.shape[1])
    if size is not None:
        few = np.random.default_rng(draw).permutation(len(y))[:size]
        X, y = X[few], y[few]
    auto = AutoCalibrator(from_logits=from_logits)
    seconds = seconds_of(lambda: auto.fit(X, y, labels=labels))
    slowest = max(
        seconds_of(lambda each=each: clone(each).fit(X, y, labels=labels))
        for each in auto.calibrators_
    )
    proba = auto.predict_proba(X_test).astype(np.float64)
    proba /= proba.sum(axis=1, keepdims=True)
    nll = -np.log(proba[np.arange(len(y_test)), y_test]).mean()
    ece = expected_calibration_error(y_test, proba, labels=labels)
    found = auto.n_errors_, seconds, slowest, seconds / slowest, nll, ece
    return len(labels), *(f"{each:.5g}" for each in found)


def run(path, half):
    """Compute the missing rows of a half, or of both."""
    for own, name, *data in read_all():
        if half in (None, own):
            is_whole = name.startswith("simulated")
            sizes = {None: 1} if is_whole else SIZES
            keys = [
                (own, name, size or len(data[2]), draw)
                for size, n_draws in sizes.items()
                for draw in range(n_draws)
            ]
            add_missing(
                path,
                FIELDS,
                keys,
                lambda _, __, size, draw, data=data: measure(
                    data, None if size == len(data[2]) else size, draw
                ),
            )


def kind_of(rows):
    """Return the kind of data of each row: two classes to a hundred, or more."""
    many = np.where(
        rows["data"].str.startswith("simulated"), "simulated", "150 classes"
    )
    kind = pd.Series(np.where(rows["classes"] > 100, many, "public"), rows.index)
    size = rows["samples"].where(rows["samples"].isin(SIZES), "all")
    return [rows["half"], kind.rename("kind"), size.rename("size")]


def measure_default(data, name):
    """Return CPU seconds of both fits, the shorter of two, and their ratio."""
    X, y = TABLES[data](return_X_y=True)
    classifier = CLASSIFIERS[name]
    ours, theirs = (
        min(seconds_of(partial(clone(each).fit, X, y)) for _ in range(2))
        for each in (
            CalibratedClassifier(classifier),
            CalibratedClassifierCV(classifier),
        )
    )
    return (*(f"{each:.4g}" for each in (ours, theirs, ours / theirs)),)


def run_default(path):
    """Compute the missing rows, and print all."""
    fields = ["data", "classifier", "seconds", "sklearn", "ratio"]
    keys = [(data, name) for data in TABLES for name in CLASSIFIERS]
    add_missing(path, fields, keys, measure_default)
    print(pd.read_csv(path).to_string(index=False))


def print_table(path):
    rows = pd.read_csv(path)
    ratio = rows.groupby(kind_of(rows))["ratio"].quantile([0.25, 0.5, 0.75]).unstack()
    seconds = rows.groupby(kind_of(rows))["seconds"]
    table = ratio.assign(n=seconds.size(), median_s=seconds.median())
    table["most_s"] = seconds.max()
    print(table.round(5).to_string())


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--half", choices=HALVES, help="only one half of the data sets")
    parser.add_argument("--default", action="store_true", help="CalibratedClassifier")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        if args.default:
            run_default(args.file)
            return
        run(args.file, args.half)
    print_table(args.file)


if __name__ == "__main__":
    main()
