"""Log-odds splines compared with other calibrators.

    python benchmarks/studies/bench_log_odds_spline.py results

**Waves.** The log-odds x are normal with standard deviation 2, and the true log-odds
are a curve of them in `CURVES`. The excess of the expected log loss over that of the
true probabilities is computed at 20,000 points, and averaged over 20 draws.

**Many classes.** Every third data set of more than two classes, and logits that are
calibrated or those divided by three. The calibrators of `JOINT` are fitted to random
samples and evaluated on at most 5000 others.

Writes a row for each problem and calibrator to `results/log_odds_spline_waves.csv` and
`..._classes.csv`. Existing rows are not computed again. Then prints the (excess) log
losses. Uses one thread.
"""

import argparse
import csv
import warnings
from collections import defaultdict
from itertools import product
from pathlib import Path

import numpy as np
from bench_public_logits import contestants, read_data, timed_run
from helpers.resumable import open_results
from scipy.special import expit
from threadpoolctl import threadpool_limits

from sklearn_calib._numerics.softmax import softmax

METHOD = "log_odds_spline"
FIELDS = ["data", "fold", "method", "package", "nll", "brier", "seconds", "failure"]
CURVES = {
    "wave": lambda x: x + np.sin(2 * x) / 2,
    "strong wave": lambda x: x + np.sin(2 * x),
    "bend": lambda x: np.where(x < 0, x / 2, 2 * x),
    "temperature": lambda x: x / 2,
    "identity": lambda x: x,
}
SIZES = [300, 1000, 3000]
N_DRAWS = 20
# Calibrators that are compared on waves.
SIMPLE = ["temperature", "platt", "beta", "isotonic", "venn_abers"]
SIMPLE += ["quadratic_logistic", METHOD]


# Calibrators that are compared for many classes.
JOINT = ["temperature", "ensemble_temperature", "structured_vector", "joint_beta"]
JOINT += ["structured_matrix", METHOD, "joint_log_odds_spline"]
N_TEST = 5000


def read_sets():
    """Yield the names, logits and true classes of the public data sets."""
    for name, from_logits, *halves in read_data():
        X, y = (np.concatenate(halves[i::2]) for i in range(2))
        X = X.astype(np.float64)
        yield name, X if from_logits else np.log(np.maximum(X, 1e-12)), y


def losses(proba, target):
    """Return the expected log losses of probabilities of two classes."""
    log = np.log(np.maximum(proba, np.finfo(np.float64).tiny))
    return -(1 - target) * log[:, 0] - target * log[:, 1]


def pair(x):
    """Return logits of two classes, given log-odds."""
    return np.column_stack([np.zeros_like(x), x])


def measure(proba, target):
    """Return the means of the log loss and of the Brier score.

    If the targets are probabilities, of the excess over those of the targets.
    """
    certain = np.column_stack([1 - target, target])
    excess = losses(proba, target) - losses(certain, target)
    return {"nll": excess.mean(), "brier": 2 * np.mean((proba[:, 1] - target) ** 2)}


def draw_folds():
    """Yield names, folds, and the data of `fit` and of the test, for waves.

    Targets of the test are probabilities.
    """
    for (name, curve), n, seed in product(CURVES.items(), SIZES, range(N_DRAWS)):
        rng = np.random.default_rng(seed)
        x = rng.normal(scale=2, size=n)
        y = (rng.random(n) < expit(curve(x))).astype(np.int64)
        x_test = np.random.default_rng(99).normal(scale=2, size=20_000)
        yield f"{name}, n={n}", seed, (x, y), (x_test, expit(curve(x_test)))


def draw_sets():
    """Yield the names, logits and true classes of simulated data sets."""
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(4000 + N_TEST, 10))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    yield "calibrated", logits, y
    yield "temperature", logits / 3, y


def read_many():
    """Yield names, folds, and the data of `fit` and of the test, for many classes."""
    public = [each for each in read_sets() if each[1].shape[1] > 2]
    for name, X, y in [*draw_sets(), *public[::3]]:
        for n in (300, 1000, 4000):
            order = np.random.default_rng(n).permutation(len(y))
            some, others = order[:n], order[n:][-N_TEST:]
            yield f"{name}, n={n}", 0, (X[some], y[some]), (X[others], y[others])


def measure_classes(proba, y):
    """Return the mean log loss and Brier score."""
    true = proba[np.arange(len(y)), y]
    brier = (proba**2).sum(axis=1) - 2 * true + 1
    return {"nll": -np.log(true).mean(), "brier": brier.mean()}


def run_all(path, folds, methods, limit):
    """Compute the missing rows."""
    with open_results(path, FIELDS, n_keys=4) as (done, append):
        for data, fold, (logits, y), (logits_test, target) in folds:
            is_many = logits.ndim == 2
            if not is_many:
                logits, logits_test = pair(logits), pair(logits_test)
            seen = softmax(logits), y, softmax(logits_test)
            for method, package, run in contestants(
                logits, logits_test, from_logits=True, with_peers=False
            ):
                if method in methods and (data, str(fold), method, package) not in done:
                    row = timed_run(
                        run,
                        seen,
                        target,
                        limit,
                        measure_classes if is_many else measure,
                    )
                    values = [row.get(field, "") for field in FIELDS[4:]]
                    append([data, fold, method, package, *values])


def read_losses(path):
    """Return the names of the data and of the methods, and the measures.

    The measures of methods that finished everywhere have the shape (n_data, n_methods,
    n_folds, 3).
    """
    rows = list(csv.DictReader(path.open()))
    data = list(dict.fromkeys(row["data"] for row in rows))
    folds = list(dict.fromkeys(row["fold"] for row in rows))
    cells, failures = {}, defaultdict(list)
    for row in rows:
        name = row["method"]
        if row["failure"]:
            failures[name].append(row["failure"])
        else:
            cells[row["data"], name, row["fold"]] = [float(row[k]) for k in FIELDS[4:7]]
    for name, reasons in failures.items():
        print(f"{name} failed {len(reasons)} times: {reasons[0]}")
    methods = sorted({name for _, name, _ in cells} - {*failures})
    values = [[[cells[d, m, f] for f in folds] for m in methods] for d in data]
    return data, methods, np.array(values)


def print_table(path, title):
    data, methods, losses = read_losses(path)
    nll = losses[..., 0].mean(axis=2)
    ours = methods.index(METHOD)
    others = [i for i in range(len(methods)) if i != ours]
    print(f"\n{title}; in the last column, {METHOD} over the best other of ours")
    print(f"{'':24}" + "".join(f"{method[:18]:>20}" for method in methods))
    for name, row in zip(data, nll, strict=True):
        cells = "".join(f"{cell:20.5f}" for cell in row)
        print(f"{name:24}{cells}{row[ours] / row[others].min():8.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--limit", type=int, default=60, help="seconds for each")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    waves = args.folder / "log_odds_spline_waves.csv"
    classes = args.folder / "log_odds_spline_classes.csv"
    with threadpool_limits(1):
        run_all(waves, draw_folds(), SIMPLE, args.limit)
        run_all(classes, read_many(), JOINT, args.limit)
    print_table(waves, "Excess log loss on waves")
    print_table(classes, "Log loss for many classes")


if __name__ == "__main__":
    main()
