"""Calibrators updated by `partial_fit`: the limit of many batches, drifting streams.

    python benchmarks/populations/bench_online.py limit results
    python benchmarks/populations/bench_online.py drift results

`limit` compares `partial_fit` without forgetting to `fit`, for logits that are 1.5
times too large, and prints by how much the log loss on the n samples exceeds that of
`fit`, as a sum in nats, and the CPU times of an update and of `fit`. The log loss of
the true parameters exceeds that of `fit` by 0.5 nats for each parameter on average.

`drift` predicts each batch of 100 samples before it is used for the update. Prints the
mean log loss after the first 2,000 samples, and the CPU time of an update. The streams:

- temperature: ten classes; the factor of the logits varies between 1 and 2 (as a sine,
  with a period of 20,000 samples), 40,000 samples. Temperature scaling.
- jump: two classes; after every 5,000 samples, the slope and the intercept of the
  log-odds are drawn again, 40,000 samples. Platt scaling.
- adult: a quarter of the table trains logistic regression without the age, and the rest
  are sorted by age. Platt scaling.

The methods: no calibration; a calibrator fitted to the first 2,000 samples;
`partial_fit` with several half-lives; `fit` to a sliding window of the last 500, 1,000
or 4,000 samples for each batch; and for two classes the online Newton step of Gupta and
Ramdas ("Online Platt Scaling with Calibeating", ICML 2023), with the parameters of the
authors' code but started at the identity, and logistic regression of river on the
log-odds, by stochastic gradient steps, if river is installed. Both of these are updated
sample by sample.

Each result is a row of `results/online_*.csv`; existing rows are not computed again.
The table is that in the folder `tabular` of the shared data (`SKLEARN_CALIB_DATA`).
Uses one thread.
"""

import argparse
import sys
import time
import warnings
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit, log_softmax
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from sklearn_calib.calibrators import (
    BetaCalibration,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
from bench_public_logits import DATA
from helpers.resumable import add_missing, open_results

SIZE, N_START = 100, 2000
HALF_LIVES = [None, 250, 500, 1000, 2000, 8000]
WINDOWS = [500, 1000, 4000]
# Calibrators and numbers of classes.
LIMITS = {
    "temperature": (TemperatureScaling, 10),
    "platt": (PlattScaling, 2),
    "vector": (VectorScaling, 4),
    "beta": (BetaCalibration, 2),
}


def log_losses(log_proba, y):
    """Return the log loss of each sample."""
    return -log_proba[np.arange(len(y)), y]


def measure_limit(name, size, n):
    """Return the excess in nats, and the milliseconds of an update and of `fit`."""
    make, n_classes = LIMITS[name]
    rng = np.random.default_rng(n)
    logits = 1.5 * rng.normal(size=(n, n_classes))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    X, online = 1.5 * logits, make(from_logits=True)
    start = time.process_time()
    for first in range(0, n, size):
        rows = slice(first, first + size)
        online.partial_fit(X[rows], y[rows], classes=np.arange(n_classes))
    middle = time.process_time()
    fitted = make(from_logits=True).fit(X, y)
    end = time.process_time()
    sums = [
        log_losses(np.log(each.predict_proba(X)), y).sum() for each in (online, fitted)
    ]
    update = 1000 * (middle - start) * size / n
    return sums[0] - sums[1], update, 1000 * (end - middle)


class Online:
    """`partial_fit` with a half-life."""

    def __init__(self, make, half_life):
        self.calibrator, self.half_life = make(from_logits=True), half_life

    def update(self, X, y):
        classes = np.arange(X.shape[1])
        self.calibrator.partial_fit(X, y, classes=classes, half_life=self.half_life)

    def predict(self, X):
        return np.log(self.calibrator.predict_proba(X))


class Window:
    """`fit` to the last samples, or only to the first ones if `is_static`."""

    def __init__(self, make, width, *, is_static=False):
        self.calibrator, self.width, self.is_static = (
            make(from_logits=True),
            width,
            is_static,
        )
        self.X, self.y, self.is_fitted = None, None, False

    def update(self, X, y):
        if self.is_static and self.is_fitted and len(self.y) >= self.width:
            return
        new = self.X is None
        self.X = X if new else np.concatenate([self.X, X])[-self.width :]
        self.y = y if new else np.concatenate([self.y, y])[-self.width :]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.calibrator.fit(self.X, self.y, labels=np.arange(X.shape[1]))
        self.is_fitted = True

    predict = Online.predict


class Plain:
    """No calibration."""

    def update(self, X, y):
        pass

    def predict(self, X):
        return log_softmax(X, axis=1)


class NewtonStep(Plain):
    """The online Newton step, with beta = 0.1 and D = 1."""

    def __init__(self):
        self.parameters, self.inverse = np.array([1.0, 0.0]), 0.01 * np.eye(2)

    def update(self, X, y):
        for log_odds, target in zip(X[:, 1] - X[:, 0], y, strict=True):
            features = np.array([log_odds, 1.0])
            gradient = (expit(features @ self.parameters) - target) * features
            moved = self.inverse @ gradient
            self.inverse -= np.outer(moved, moved) / (1 + gradient @ moved)
            self.parameters = self.parameters - 10 * self.inverse @ gradient

    def predict(self, X):
        margin = self.parameters[0] * (X[:, 1] - X[:, 0]) + self.parameters[1]
        return -np.logaddexp(0, np.column_stack([margin, -margin]))


class River(Plain):
    """Logistic regression of river on the log-odds, started at the identity."""

    def __init__(self, rate):
        from river import linear_model, optim

        self.model = linear_model.LogisticRegression(
            optim.SGD(rate),
            intercept_lr=rate,
            initializer=optim.initializers.Constant(1.0),
        )

    def update(self, X, y):
        for log_odds, target in zip(X[:, 1] - X[:, 0], y, strict=True):
            self.model.learn_one({"log_odds": log_odds}, bool(target))

    def predict(self, X):
        proba = [
            self.model.predict_proba_one({"log_odds": each})[True]
            for each in X[:, 1] - X[:, 0]
        ]
        tiny = np.finfo(np.float64).tiny
        return np.log(np.maximum([1 - np.array(proba), proba], tiny).T)


def methods(make, is_binary):
    """Yield names and new objects."""
    yield "none", Plain()
    yield "static", Window(make, N_START, is_static=True)
    for half_life in HALF_LIVES:
        yield f"half-life {half_life}", Online(make, half_life)
    for width in WINDOWS:
        yield f"window {width}", Window(make, width)
    if is_binary:
        yield "online Newton step", NewtonStep()
        for rate in (0.01, 0.001) if find_spec("river") else ():
            yield f"river, rate {rate}", River(rate)


def make_temperature(rng):
    n = 40_000
    logits = 1.5 * rng.normal(size=(n, 10))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    factor = 2 ** (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / 20_000))
    return factor[:, None] * logits, y, log_softmax(logits, axis=1)


def make_jump(rng):
    n = 40_000
    slope, intercept = (
        np.repeat(rng.uniform(*ends, 8), 5000) for ends in [(0.5, 1.2), (-1, 1)]
    )
    log_odds = 2 * rng.normal(size=n)
    true = slope * log_odds + intercept
    y = (rng.random(n) < expit(true)).astype(int)
    logits = np.column_stack([np.zeros(n), log_odds])
    return logits, y, log_softmax(np.column_stack([np.zeros(n), true]), axis=1)


def make_adult(rng):
    frame = pd.read_csv(DATA / "tabular" / "adult.csv.gz")
    y = frame["target"].factorize(sort=True)[0]
    age = frame["age"].to_numpy() + rng.random(len(y))
    X = frame.drop(columns=["age", "target", "split"], errors="ignore")
    is_train = rng.permutation(len(y)) < len(y) // 4
    encoder = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        (
            OneHotEncoder(handle_unknown="ignore"),
            make_column_selector(dtype_exclude="number"),
        ),
    )
    model = make_pipeline(encoder, LogisticRegression(max_iter=1000))
    model.fit(X[is_train], y[is_train])
    rows = np.flatnonzero(~is_train)
    rows = rows[np.argsort(age[rows])]
    log_odds = model.decision_function(X.iloc[rows])
    return np.column_stack([np.zeros(len(rows)), log_odds]), y[rows], None


STREAMS = {
    "temperature": (make_temperature, TemperatureScaling),
    "jump": (make_jump, PlattScaling),
    "adult": (make_adult, PlattScaling),
}


def measure_stream(method, X, y):
    """Return the mean log loss and the milliseconds of an update."""
    losses, seconds = [], 0.0
    for first in range(0, len(y), SIZE):
        rows = slice(first, first + SIZE)
        if first >= N_START:
            losses.append(log_losses(method.predict(X[rows]), y[rows]))
        start = time.process_time()
        method.update(X[rows], y[rows])
        seconds += time.process_time() - start
    return np.concatenate(losses).mean(), 1000 * seconds * SIZE / len(y)


def run_limit(folder):
    fields = ["calibrator", "size", "n", "excess", "update_ms", "fit_ms"]
    path = folder / "online_limit.csv"
    keys = product(LIMITS, (1, 10, 100, 1000), (1000, 10_000, 100_000))
    wanted = [(name, size, n) for name, size, n in keys if n <= 10_000 * size]
    add_missing(path, fields, wanted, measure_limit)
    frame = pd.read_csv(path)
    for column in fields[3:]:
        print(column)
        table = frame.pivot(index=["calibrator", "size"], columns="n", values=column)
        print(table.round(4).to_string())


def run_drift(folder, n_seeds):
    fields = ["stream", "seed", "method", "log_loss", "milliseconds"]
    with open_results(folder / "online_drift.csv", fields, 3) as (keys, append):
        for name, (make_stream, calibrator) in STREAMS.items():
            for seed in map(str, range(n_seeds)):
                X, y, truth = make_stream(np.random.default_rng(int(seed)))
                if truth is not None and (name, seed, "truth") not in keys:
                    best = log_losses(truth, y)[N_START:].mean()
                    append([name, seed, "truth", best, 0.0])
                for method, new in methods(calibrator, X.shape[1] == 2):
                    if (name, seed, method) not in keys:
                        append([name, seed, method, *measure_stream(new, X, y)])
    frame = pd.read_csv(folder / "online_drift.csv")
    for column in ("log_loss", "milliseconds"):
        print(column)
        table = frame.pivot_table(column, "method", "stream", sort=False)
        print(table.round(4).to_string())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["limit", "drift"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    with threadpool_limits(1):
        if arguments.part == "limit":
            run_limit(arguments.folder)
        else:
            run_drift(arguments.folder, arguments.seeds)
