"""Strengths of penalties by empirical Bayes, compared with those of the authors.

    python benchmarks/studies/bench_priors.py results

Each calibrator is fitted with its authors' parameters and with "empirical_bayes" to
`--draws` random samples of

- "temperature": Gaussian logits z with labels from softmax(z / 2), so that temperature
  scaling is the truth and every other parameter only costs. The log loss is the
  expectation under the truth.
- the networks of CIFAR-10 in the shared data (`SKLEARN_CALIB_DATA`). All other samples
  are the test set.

Writes the mean log loss and the CPU seconds of `fit` to `results/priors.csv`; existing
rows are not computed again. Then prints, for the truth, how many times the excess of
temperature scaling each calibrator has, and its difference in units of 1 / n nats; for
the networks, the change of the log loss in percent; and the CPU time divided by that
with the authors' strength. Uses one thread.
"""

import argparse
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from bench_public_logits import DATA
from calarena.custom_calibrators import METHODS as MAKERS
from helpers.resumable import add_missing
from threadpoolctl import threadpool_limits

from sklearn_calib._numerics.softmax import log_softmax, softmax

BAYES = "empirical_bayes"
PARAMETER = {
    "structured_vector": "lambd",
    "structured_matrix": "lambd",
    "vector": "penalty",
    "matrix": "penalty",
    "dirichlet": "penalty",
    "joint_beta": "penalty",
}
METHODS = ["temperature", *PARAMETER, *(f"{name}, eb" for name in PARAMETER)]
TRUTHS = [(200, 2), (200, 10), (1000, 10), (5000, 10), (1000, 100)]
SIZES = [50, 200, 500, 1000, 4000]
N_TEST = 4000
FIELDS = ["data", "samples", "method", "draws", "before", "after", "seconds"]


def truths():
    """Yield a name, the number of samples, and a function that draws them."""
    for n_samples, n_classes in TRUTHS:

        def draw(rng, n_samples=n_samples, n_classes=n_classes):
            X = 3 * rng.standard_normal((n_samples + N_TEST, n_classes))
            y = (X / 2 + rng.gumbel(size=X.shape)).argmax(axis=1)
            test = X[n_samples:]
            return X[:n_samples], y[:n_samples], test, softmax(test / 2)

        yield f"temperature, {n_classes} classes", n_samples, draw


def networks():
    file = np.load(DATA / "logits" / "cifar10_chenyaofo.npz")
    y = file["labels"]
    for net in file.files[1:]:
        X = file[net].astype(np.float64)
        for n_samples in SIZES:

            def draw(rng, X=X, n_samples=n_samples):
                rows = rng.permutation(len(y))
                fit, new = rows[:n_samples], rows[n_samples:]
                return X[fit], y[fit], X[new], np.eye(10)[y[new]]

            yield f"CIFAR-10, {net}", n_samples, draw


def measure(method, draw, seed):
    """Return the log loss before and after calibration, and the CPU seconds of fit."""
    X, y, X_test, truth = draw(np.random.default_rng(seed))
    name, _, is_bayes = method.partition(", ")
    params = {PARAMETER[name]: BAYES} if is_bayes else {}
    calibrator = MAKERS[name](from_logits=True, **params)
    start = time.process_time()
    calibrator.fit(X, y, labels=np.arange(X.shape[1]))
    seconds = time.process_time() - start
    if truth.max(axis=1).min() < 1:  # the log loss of the truth
        before = -(truth * np.log(truth)).sum(axis=1).mean()
    else:
        before = -(truth * log_softmax(X_test)).sum(axis=1).mean()
    proba = calibrator.predict_proba(X_test)
    return before, -(truth * np.log(proba)).sum(axis=1).mean(), seconds


def run_all(path, draws):
    """Compute the missing rows."""
    sources = {source[:2]: source[2] for source in (*truths(), *networks())}

    def mean(name, n_samples, method):
        draw = sources[name, n_samples]
        rows = [measure(method, draw, seed) for seed in range(draws)]
        return draws, *np.mean(rows, axis=0)

    keys = [(*source, method) for source, method in product(sources, METHODS)]
    add_missing(path, FIELDS, keys, mean)


def print_tables(path):
    table = pd.read_csv(path)
    pd.set_option("display.width", 250, "display.precision", 2, "display.max_rows", 99)
    pd.set_option("display.max_columns", 20)
    is_truth = table["data"].str.startswith("temperature")
    table["excess"] = table["after"] - table["before"]
    table["change"] = 100 * table["excess"] / table["before"]
    table = table.set_index(["data", "samples", "method"])

    def wide(column, rows):
        return table[column][rows.to_numpy()].unstack("method")[METHODS].T

    excess = wide("excess", is_truth)
    print("\nExcess over that of temperature scaling")
    print(excess / excess.loc["temperature"])
    print("\nThe difference times the number of samples")
    print((excess - excess.loc["temperature"]) * excess.columns.get_level_values(1))
    change = wide("change", ~is_truth)
    print("\nMean change of the log loss of the networks, percent")
    print(change.T.groupby("samples").mean().T)
    loss = wide("after", ~is_truth)
    limit = np.maximum(
        0.01 * loss.loc["temperature"], 1 / loss.columns.get_level_values(1)
    )
    worst = ((loss - loss.loc["temperature"]) / limit).T.groupby("samples").max().T
    print("\nWorst network: difference to a temperature, in units of max(1 %, 1 / n)")
    print(worst)
    seconds = table["seconds"].unstack("method")
    ratio = pd.DataFrame(
        {name: seconds[f"{name}, eb"] / seconds[name] for name in PARAMETER}
    )
    print("\nCPU time divided by that with the authors' strength, medians")
    print(
        ratio.assign(truth=ratio.index.get_level_values(0).str[:4])
        .groupby(["truth", "samples"])
        .median()
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("results"))
    parser.add_argument("--draws", type=int, default=10)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    path = args.folder / "priors.csv"
    with threadpool_limits(1):
        run_all(path, args.draws)
    print_tables(path)


if __name__ == "__main__":
    main()
