"""Coverage of the intervals of `CalibratedClassifier.predict_interval`.

    python benchmarks/guarantees/bench_prediction_intervals.py \
        --output benchmarks/guarantees/results/prediction_intervals.csv

The logits z of the frozen classifier are normal with the standard deviation 2, and the
true probabilities are a calibration map of z, that of the column `truth`: TRUTHS below.
In each of `--repeats` data sets, a calibrator is fitted to `n_samples` samples, and the
95 % intervals of 50 others are computed with `--n-resamples` draws. Writes the fraction
of the true probabilities that lie in them, its standard error over the data sets, and
the mean width. "auto" takes longer: its rows were computed with `--maps auto`
and `--n-samples 300 --repeats 60` or `--n-samples 3000 --repeats 24 --n-resamples 12`.
Rows in the file are not computed again.
"""

import argparse
import itertools
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from scipy.special import expit, log_expit, softmax
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from sklearn_calib import CalibratedClassifier

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
from helpers.resumable import add_missing

FIELDS = ["map", "truth", "n_samples", "coverage", "error", "width", "repeats"]
TRUTHS = {
    "temperature": lambda z: expit(z / 2),
    "platt": lambda z: expit(0.6 * z + 0.7),
    "beta": lambda z: expit(0.4 * log_expit(z) - 1.2 * log_expit(-z) + 0.5),
    "vector": lambda z: softmax(z * [0.5, 0.8, 0.6] + [0, 0.5, -0.5], axis=1),
}
# The last map is wrong.
PAIRS = [*zip(TRUTHS, TRUTHS, strict=True), ("temperature", "beta")]


def identity(n_columns):
    """Return a logistic regression whose logits are its features."""
    classes = np.arange(max(2, n_columns))
    model = LogisticRegression().fit(
        np.resize(np.eye(n_columns), (len(classes), n_columns)), classes
    )
    model.coef_, model.intercept_ = np.eye(n_columns), np.zeros(n_columns)
    return FrozenEstimator(model)


def draw(rng, truth, n_samples):
    """Return logits, true probabilities of the classes, and labels."""
    z = 2 * rng.normal(size=(n_samples, 3 if truth == "vector" else 1))
    if truth == "vector":  # vector scaling centres the rows
        z -= z.mean(axis=1, keepdims=True)
    chance = TRUTHS[truth](z)
    chance = np.hstack([1 - chance, chance]) if chance.shape[1] == 1 else chance
    above = rng.random((n_samples, 1)) > chance.cumsum(axis=1)[:, :-1]
    return z, chance, above.sum(axis=1)


def measure(name, truth, n_samples, args):
    """Return the coverage, its standard error, and the mean width."""
    found, widths = [], []
    for seed in range(args.repeats):
        rng = np.random.default_rng(seed)
        z, _, y = draw(rng, truth, n_samples)
        model = CalibratedClassifier(identity(z.shape[1]), name).fit(z, y)
        z, chance, _ = draw(rng, truth, 50)
        options = {"n_resamples": args.n_resamples, "random_state": seed}
        low, high = np.moveaxis(model.predict_interval(z, **options), 2, 0)
        found.append(((low <= chance) & (chance <= high)).mean())
        widths.append((high - low).mean())
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    shown = f"{np.mean(found):.3f}", f"{error:.3f}", f"{np.mean(widths):.3f}"
    return *shown, args.repeats


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--maps", default="temperature,platt,beta,vector")
    parser.add_argument("--n-samples", default="300,3000")
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--n-resamples", type=int, default=20)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    auto = [("auto", "beta"), ("auto", "vector")]
    chosen = [pair for pair in [*PAIRS, *auto] if pair[0] in args.maps.split(",")]
    sizes = map(int, args.n_samples.split(","))
    keys = [(*pair, size) for size, pair in itertools.product(sizes, chosen)]
    add_missing(args.output, FIELDS, keys, partial(measure, args=args))
