"""Number of errors that a calibrator needs among the samples that it is fitted to.

    python benchmarks/studies/bench_calibration_size.py results
    python benchmarks/studies/bench_calibration_size.py --folds

An error is a misclassified sample. For classifiers with different accuracies, every
calibrator is fitted to random samples with 5, 10, ..., 500 errors on average, and the
log loss on other samples is compared with the log loss before calibration. Each result
is written as a row to `results/calibration_size.csv`; existing rows are not computed
again. Then prints the mean change in percent with its standard error, and for each
calibrator the largest number of errors with which it increases the log loss of a
calibrated classifier by more than `--cost` percent.

- Simulated classifiers are calibrated: their labels are drawn from their predicted
  probabilities, so a calibrator can only increase the log loss. The log loss is the
  expectation under the true probabilities. The scale of the Gaussian logits sets the
  accuracy.
- Real classifiers are the networks of `DATA` (`SKLEARN_CALIB_DATA`). At most half of
  the samples are used to fit the calibrator, and all others are the test set.

The number of random splits is `--draws`, fewer for large matrices of logits, but at
least 3. Uses one thread. `--data`, `--methods` and `--errors` compute some rows only;
"eb" are strengths by empirical Bayes.

`_errors_needed` of a calibrator is a, p: the smallest number of errors from which on
the cost for two classes is at most about 5 %, and the power of `n_classes - 1` by which
it grows, log(b / a) / log(9), where b is the number for ten classes.

With `--folds`, prints the change of the log loss for the simulated classifier with ten
classes and accuracy 0.9: with one calibrator fitted to all samples, with the averaged
probabilities of five calibrators, each fitted to a fifth of the samples (as in
`CalibratedClassifier`), and with one of these five. There are `--draws` random samples.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from bench_priors import BAYES, PARAMETER
from bench_public_logits import read_data
from calarena.custom_calibrators import METHODS as MAKERS
from helpers.resumable import open_results
from scipy.optimize import brentq
from threadpoolctl import threadpool_limits

from sklearn_calib._numerics.softmax import log_softmax, softmax
from sklearn_calib.calibrators import get_calibrator_names

ERRORS = [5, 10, 20, 50, 100, 200, 500]
# Classes, accuracy and largest number of errors, limited by time for 100 classes.
SIMULATED = [(2, 0.97, 500), (10, 0.9, 500), (10, 0.99, 500), (100, 0.9, 100)]
DATA = ["mnist_cnn", "cifar10_resnet50_mukhoti_ce"]
# They invert a focal loss, or return uniform probabilities for some samples.
LEFT_OUT = {"focal_posterior", "meta_cal"}
CHOSEN = "structured_matrix, cv"  # the strength chosen by cross-validation
# Methods that are not a calibrator with its defaults.
VARIANTS = {
    CHOSEN: {"lambd": "cv"},
    **{f"{name}, eb": {parameter: BAYES} for name, parameter in PARAMETER.items()},
}
METHODS = [name for name in get_calibrator_names() if name not in LEFT_OUT]
METHODS += [name for name in VARIANTS if name != CHOSEN]
FOLDED_ERRORS = [10, 20, 50]
FOLDED = ["temperature", "structured_vector", "structured_matrix", CHOSEN, "isotonic"]
N_TEST = 5000
N_LOGITS = 2_000_000  # of all random splits of one size together, if more than 3
FIELDS = ["data", "method", "errors", "samples", "parts", "before", "after", "error"]


class Simulated:
    """Simulated calibrated classifier with a given accuracy."""

    def __init__(self, n_classes, accuracy, most_errors):
        self.n_classes, self.error_rate = n_classes, 1 - accuracy
        self.name = f"simulated, {n_classes} classes, accuracy {accuracy}"
        self.limit = round(most_errors / self.error_rate)
        normal = np.random.default_rng(0).standard_normal((20_000, n_classes))
        self.scale = brentq(
            lambda scale: softmax(scale * normal).max(axis=1).mean() - accuracy,
            0.1,
            1e5,
        )

    def draw(self, n_samples, rng):
        """Return logits and labels to fit to, logits and true probabilities to test."""
        size = n_samples + N_TEST, self.n_classes
        logits = self.scale * rng.standard_normal(size)
        y = (logits + rng.gumbel(size=size)).argmax(axis=1)
        test = logits[n_samples:]
        return logits[:n_samples], y[:n_samples], test, softmax(test)


class Measured:
    """Logits of a real network for samples that it was not trained on."""

    def __init__(self, name, X, y):
        self.name, self.X, self.y = name, X.astype(np.float64), y
        self.n_classes, self.limit = X.shape[1], len(y) // 2
        self.error_rate = np.mean(X.argmax(axis=1) != y)

    def draw(self, n_samples, rng):
        order = rng.permutation(len(self.y))
        rows, others = order[:n_samples], order[n_samples:]
        truth = np.eye(self.n_classes)[self.y[others]]
        return self.X[rows], self.y[rows], self.X[others], truth


def sources(prefix):
    """Yield the classifiers whose name starts with some text."""
    every = [*measured(), *(Simulated(*setting) for setting in SIMULATED)]
    return (source for source in every if source.name.startswith(prefix))


def measured():
    for name, _, X, y, X_test, y_test in read_data():
        if name in DATA:
            yield Measured(name, np.concatenate([X, X_test]), np.append(y, y_test))


def log_losses(source, n_samples, methods, seed):
    """Return the log loss before calibration, and after it for each method."""
    X, y, X_test, truth = source.draw(n_samples, np.random.default_rng(seed))
    before = -(truth * log_softmax(X_test)).sum(axis=1).mean()
    after = []
    for method in methods:
        proba = calibrated(method, X, y, X_test)
        after.append(-(truth * np.log(proba)).sum(axis=1).mean())
    return [before, *after]


def calibrated(method, X, y, X_test):
    """Return the probabilities of the test set."""
    params = VARIANTS.get(method, {})
    calibrator = MAKERS[method.partition(",")[0]](from_logits=True, **params)
    return calibrator.fit(X, y, labels=np.arange(X.shape[1])).predict_proba(X_test)


def change(before, after):
    """Return the change of the mean in percent, and its standard error over draws."""
    ratio = after.mean() / before.mean()
    error = np.std(after - ratio * before, ddof=1) / before.mean() / len(after) ** 0.5
    return 100 * (ratio - 1), 100 * error


def print_folds(n_draws):
    """Compare five calibrators, each fitted to a fifth, with one for all samples."""
    source = Simulated(10, 0.9, max(FOLDED_ERRORS))
    print(
        f"{'errors':>6}  {'method':24}{'one for all':>14}{'average':>14}{'single':>14}"
    )
    for errors in FOLDED_ERRORS:
        n_samples = round(errors / source.error_rate)
        for method in FOLDED:
            losses = []
            for seed in range(n_draws):
                rng = np.random.default_rng(seed)
                X, y, X_test, truth = source.draw(n_samples, rng)
                parts = [calibrated(method, X[i::5], y[i::5], X_test) for i in range(5)]
                every = calibrated(method, X, y, X_test)
                before, all_, average, *single = [
                    -(truth * np.log(proba)).sum(axis=1).mean()
                    for proba in (
                        softmax(X_test),
                        every,
                        np.mean(parts, axis=0),
                        *parts,
                    )
                ]
                losses.append([before, all_, average, np.mean(single)])
            before, *after = np.transpose(losses)
            changes = [change(before, loss) for loss in after]
            cells = "".join(f"{mean:7.1f} ± {error:4.1f}" for mean, error in changes)
            print(f"{errors:6}  {method:24}{cells}", flush=True)


def run_all(path, wanted, prefix, sizes, n_draws):
    """Compute the missing rows of the wanted methods and numbers of errors."""
    with open_results(path, FIELDS, n_keys=3) as (done, append):
        for source in sources(prefix):
            for errors in sizes:
                methods = [
                    method
                    for method in wanted
                    if (source.name, method, str(errors)) not in done
                ]
                n_samples = round(errors / source.error_rate)
                if not methods or n_samples > source.limit:
                    continue
                most = N_LOGITS // (n_samples * source.n_classes)
                n_parts = int(np.clip(most, 3, n_draws))
                losses = np.array(
                    [log_losses(source, n_samples, methods, i) for i in range(n_parts)]
                )
                before, *after = losses.T
                for method, loss in zip(methods, after, strict=True):
                    key = source.name, method, errors, n_samples, n_parts
                    error = change(before, loss)[1]
                    append([*key, before.mean(), loss.mean(), error])


def print_tables(path, cost):
    table = pd.read_csv(path)
    table["change"] = 100 * (table["after"] / table["before"] - 1)
    pd.set_option(
        "display.width", 200, "display.precision", 1, "display.max_columns", 9
    )
    for name, rows in table.groupby("data", sort=False):
        for cells in ("change", "error"):
            wide = rows.pivot(index="method", columns="errors", values=cells)
            print(f"\n{name}, {cells}\n{wide}")
    too_much = table[
        table["data"].str.startswith("simulated") & (table["change"] > cost)
    ]
    largest = too_much.pivot_table("errors", "method", "data", "max")
    print(f"\nMost errors with which the cost is above {cost} %\n{largest}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("results"))
    parser.add_argument("--cost", type=float, default=5)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--data", default="")
    parser.add_argument("--errors", nargs="+", type=int, default=ERRORS)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--folds", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.folds:
        with threadpool_limits(1):
            print_folds(args.draws)
        return
    path = args.folder / "calibration_size.csv"
    with threadpool_limits(1):
        run_all(path, args.methods, args.data, args.errors, args.draws)
    print_tables(path, args.cost)


if __name__ == "__main__":
    main()
