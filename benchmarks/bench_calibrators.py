"""Time temperature scaling beside scikit-learn's, on the same logits.

    python benchmarks/bench_calibrators.py --repeats 9

Prints for each size and precision the median seconds of a fit, their ratio to the first
row, and the mean NLL on other logits from the same source. The data are logits of the
true model times 1.8, so that the best temperature is about 1.8. Rows are:
`CalibratedClassifierCV(FrozenEstimator(...), method="temperature")`, which the project
compares itself with, `_TemperatureScaling` in it, our `CalibratedClassifier` around the
same frozen classifier, and our `TemperatureScaling` alone. They take turns, so that a
busy machine slows them alike; one thread, so that ratios compare across machines.
"""

import argparse
import time

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV, _TemperatureScaling
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_limits

from sklearn_calib import CalibratedClassifier, TemperatureScaling

SIZES = [(5000, 10), (10_000, 100), (25_000, 1000)]
TEMPERATURE = 1.8


class SaysItsInput(ClassifierMixin, BaseEstimator):
    """A fitted classifier that costs nothing: its features are its logits."""

    decision_function_is_logits = True

    def __init__(self, n_classes):
        self.n_classes = n_classes
        self.classes_ = np.arange(n_classes)

    def fit(self, X, y):  # noqa: ARG002 - scikit-learn asks for the method
        return self

    def decision_function(self, X):
        return X

    def predict(self, X):
        return X.argmax(axis=1)


def make_logits(n_samples, n_classes, dtype, seed):
    """Return overconfident Gaussian logits, and labels drawn from the true model."""
    rng = np.random.default_rng(seed)
    logits = 2.5 * rng.standard_normal((n_samples, n_classes), dtype=dtype)
    noise = rng.gumbel(size=(n_samples, n_classes)).astype(dtype)
    y = (logits + noise).argmax(axis=1)
    logits *= dtype(TEMPERATURE)
    return logits, y


def make_contestants(n_classes):
    """Return for each name a function that fits, and one that predicts."""
    frozen = FrozenEstimator(SaysItsInput(n_classes))
    whole = CalibratedClassifierCV(frozen, method="temperature")
    bare = _TemperatureScaling()
    ours = CalibratedClassifier(frozen, TemperatureScaling())
    ours_bare = TemperatureScaling(from_logits=True)
    return {
        "scikit-learn, CalibratedClassifierCV": (whole.fit, whole.predict_proba),
        "scikit-learn, _TemperatureScaling": (bare.fit, bare.predict),
        "CalibratedClassifier": (ours.fit, ours.predict_proba),
        "TemperatureScaling": (ours_bare.fit, ours_bare.predict_proba),
    }


def seconds(fit, X, y):
    start = time.perf_counter()
    fit(X, y)
    return time.perf_counter() - start


def compare(n_samples, n_classes, dtype, repeats):
    """Print a row for each contestant."""
    X, y = make_logits(n_samples, n_classes, dtype, seed=0)
    X_test, y_test = make_logits(n_samples // 2, n_classes, dtype, seed=1)
    contestants = make_contestants(n_classes)
    times = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, (fit, _) in contestants.items():
            times[name].append(seconds(fit, X, y))
    print(f"\n{n_samples} x {n_classes}, {dtype.__name__}")
    reference = np.array(times["scikit-learn, CalibratedClassifierCV"])
    for name, (_, predict) in contestants.items():
        proba = predict(X_test).astype(np.float64)
        proba /= proba.sum(axis=1, keepdims=True)
        nll = log_loss(y_test, proba, labels=np.arange(n_classes))
        median = np.median(times[name])
        ratio = np.median(reference / times[name])
        print(f"{name:38}{median:9.5f} s  x{ratio:5.1f} as fast  NLL {nll:.6f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    print(f"# scikit-learn {sklearn.__version__}, numpy {np.__version__}")
    with threadpool_limits(1):
        for n_samples, n_classes in SIZES:
            for dtype in (np.float64, np.float32):
                compare(n_samples, n_classes, dtype, repeats)


if __name__ == "__main__":
    main()
