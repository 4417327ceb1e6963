"""Fit time of temperature scaling and of all calibrators, compared with other packages.

    python benchmarks/speed/bench_calibrators.py --repeats 9
    python benchmarks/speed/bench_calibrators.py --all --repeats 3
    python benchmarks/speed/bench_calibrators.py --intervals

Prints for each size and precision the median CPU seconds of a fit, the ratio to the
first row, and the mean negative log-likelihood (NLL) on other logits from the same
model. The data are the logits of the true model times 1.8, so the best temperature is
about 1.8.
The rows are scikit-learn's `CalibratedClassifierCV(FrozenEstimator(...),
method="temperature")`, the `_TemperatureScaling` in it, our `CalibratedClassifier` with
the same frozen classifier, and our `TemperatureScaling`. Their fits are interleaved, so
that a busy machine slows all of them equally. One thread makes the ratios comparable
across machines.

With `--all`, the logits have errors of each class: labels are drawn from
softmax(W z + b), where W has slopes of about 1 / 1.8 on its diagonal and small entries
off it. Prints a row for each registered calibrator and for each importable package with
the same method: the minimum CPU seconds of fit and prediction together, the ratio to
ours, and the NLL. A fit that takes longer than `--limit` seconds is stopped.

With `--intervals`, compares Venn-Abers calibration with isotonic regression, on 100,000
probabilities of two classes: the minimum CPU milliseconds of `fit`, `predict_proba` and
`predict_interval`, and their ratio to `fit` and `predict_proba` of isotonic regression.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import sklearn
from sklearn.calibration import CalibratedClassifierCV, _TemperatureScaling
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_limits

from sklearn_calib import CalibratedClassifier, TemperatureScaling
from sklearn_calib._numerics.softmax import softmax
from sklearn_calib.calibrators import IsotonicCalibration, VennAbers

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
from bench_public_logits import contestants, timed_run
from helpers.peers import IdentityLogits

SIZES = [(5000, 10), (10_000, 100), (25_000, 1000)]
TEMPERATURE = 1.8


def make_logits(n_samples, n_classes, dtype, seed):
    """Return overconfident Gaussian logits, and labels from the true model."""
    rng = np.random.default_rng(seed)
    logits = 2.5 * rng.standard_normal((n_samples, n_classes), dtype=dtype)
    noise = rng.gumbel(size=(n_samples, n_classes)).astype(dtype)
    y = (logits + noise).argmax(axis=1)
    logits *= dtype(TEMPERATURE)
    return logits, y


def make_faulty_logits(n_samples, n_classes, seed=0):
    """Return logits with errors of each class, and labels."""
    rng = np.random.default_rng(seed)
    logits = 2.5 * TEMPERATURE * rng.standard_normal((n_samples, n_classes))
    slopes = np.exp(0.3 * rng.standard_normal(n_classes)) / TEMPERATURE
    matrix = 0.15 * rng.standard_normal((n_classes, n_classes)) / np.sqrt(n_classes)
    true = logits * slopes + logits @ matrix + 0.5 * rng.standard_normal(n_classes)
    return logits, (true + rng.gumbel(size=true.shape)).argmax(axis=1)


def make_contestants(n_classes):
    """Return a fit function and a prediction function by name."""
    frozen = FrozenEstimator(IdentityLogits(n_classes))
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


def compare(n_samples, n_classes, dtype, repeats):
    """Print a row for each contestant."""
    X, y = make_logits(n_samples, n_classes, dtype, seed=0)
    X_test, y_test = make_logits(n_samples // 2, n_classes, dtype, seed=1)
    contestants = make_contestants(n_classes)
    times = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, (fit, _) in contestants.items():
            times[name].append(cpu_seconds(fit, X, y))
    print(f"\n{n_samples} x {n_classes}, {dtype.__name__}")
    reference = np.array(times["scikit-learn, CalibratedClassifierCV"])
    for name, (_, predict) in contestants.items():
        proba = predict(X_test).astype(np.float64)
        proba /= proba.sum(axis=1, keepdims=True)
        nll = log_loss(y_test, proba, labels=np.arange(n_classes))
        median = np.median(times[name])
        ratio = np.median(reference / times[name])
        print(f"{name:38}{median:9.5f} s  x{ratio:5.1f} as fast  NLL {nll:.6f}")


def compare_all(n_samples, n_classes, repeats, limit):
    """Print a row for each calibrator, and for the same methods of other packages."""
    logits, y = make_faulty_logits(2 * n_samples, n_classes)
    y, y_test = y[:n_samples], y[n_samples:]
    X, X_test = logits[:n_samples], logits[n_samples:]
    # Another package cannot take the logarithm of zero.
    proba = np.maximum(softmax(logits), np.finfo(np.float64).tiny)
    data = proba[:n_samples], y, proba[n_samples:]
    rows = list(contestants(X, X_test, from_logits=True, with_peers=True))
    print(f"\n{n_samples} x {n_classes}, every calibrator")
    ours = {}
    for method, package, run in sorted(rows, key=lambda row: row[0]):
        runs = [timed_run(run, data, y_test, limit)]
        while len(runs) < repeats and runs[0].get("seconds", limit) < limit / 10:
            runs.append(timed_run(run, data, y_test, limit))
        name = f"{method:28}{package:24}"
        if failure := runs[0].get("failure"):
            print(f"{name}{failure[:60]}")
            continue
        least = min(row["seconds"] for row in runs)
        ratio = least / ours.setdefault(method, least)
        print(f"{name}{least:9.4f} s  x{ratio:7.2f}  NLL {runs[0]['nll']:.4f}")


def compare_intervals(n_samples, repeats):
    """Print the time of each method of Venn-Abers calibration."""
    logits, y = make_logits(2 * n_samples, 2, np.float64, seed=0)
    proba, y = softmax(logits), y[:n_samples]
    X, X_test = proba[:n_samples], proba[n_samples:]
    isotonic, venn_abers = IsotonicCalibration(), VennAbers()
    isotonic.fit(X, y)
    venn_abers.fit(X, y)
    for base, method, data in (
        (isotonic.fit, venn_abers.fit, (X, y)),
        (isotonic.predict_proba, venn_abers.predict_proba, (X_test,)),
        (isotonic.predict_proba, venn_abers.predict_interval, (X_test,)),
    ):
        times = [
            [cpu_seconds(each, *data) for each in (base, method)]
            for _ in range(repeats)
        ]
        of_isotonic, own = np.min(times, axis=0)
        name = f"VennAbers.{method.__name__}"
        print(f"{name:28}{1000 * own:7.1f} ms  x{own / of_isotonic:5.2f}")


def cpu_seconds(call, *data):
    start = time.process_time()
    call(*data)
    return time.process_time() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--all", action="store_true", help="every calibrator")
    parser.add_argument("--intervals", action="store_true", help="Venn-Abers")
    parser.add_argument("--limit", type=int, default=60, help="seconds for each")
    args = parser.parse_args()
    print(f"# scikit-learn {sklearn.__version__}, numpy {np.__version__}")
    with threadpool_limits(1):
        if args.all:
            warnings.simplefilter("ignore")
            for size in SIZES[:2]:
                compare_all(*size, args.repeats, args.limit)
            return
        if args.intervals:
            compare_intervals(100_000, args.repeats)
            return
        for n_samples, n_classes in SIZES:
            for dtype in (np.float64, np.float32):
                compare(n_samples, n_classes, dtype, args.repeats)


if __name__ == "__main__":
    main()
