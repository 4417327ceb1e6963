"""Compare losses after temperature scaling, on tables with few and with many errors.

    python benchmarks/papers/bench_temperature_by_loss.py FILE choose
    python benchmarks/papers/bench_temperature_by_loss.py FILE confirm

Trains networks with the defaults of NeuralClassifier on up to 3,200 rows of each data
set, with each loss and seed. A temperature is fitted to up to 800 validation rows, and
the metrics are those of up to 8,000 test rows. Results in the CSV file are not computed
again. Then prints for each loss and data set, in the order of the validation accuracy
of cross-entropy, the log loss and the ECE after the temperature as ratio to that of
cross-entropy (means of the seeds). Last is the geometric mean of the log loss ratios,
with its standard error over the data sets, if a loss is used where the accuracy of
cross-entropy, on the training or the validation rows, reaches a bound, and
cross-entropy elsewhere. The rule is chosen on one half of the data sets, and confirmed
on the other half, with the losses of FINAL.

The data are read from the folder in the environment variable SKLEARN_CALIB_DATA, or
from `shared/data` next to the checkout. Uses one thread.
"""

import argparse
import warnings
from functools import cache, partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from bench_adafocal_small import (
    BASELINE,
    MOST_TEST,
    N_TRAIN,
    N_VALID,
    open_results,
    read_binary,
    read_clusters,
    read_images,
    read_mixture,
    read_table,
    read_waveform,
)
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from sklearn_calib import NeuralClassifier, TemperatureScaling
from sklearn_calib.metrics import expected_calibration_error


def read_draws():
    """Read chess endgames, with draws as one class and wins as the other."""
    X, y = read_table("krkopt")
    return X, y == y.max()


VARIANTS = {
    BASELINE: {"loss": "cross_entropy"},
    "label smoothing 0.05": {"loss": "cross_entropy", "loss__label_smoothing": 0.05},
    "label smoothing 0.1": {"loss": "cross_entropy", "loss__label_smoothing": 0.1},
    "MbLS": {"loss": "mbls"},
    "MbLS, margin 5": {"loss": "mbls", "loss__margin": 5.0},
    "focal": {"loss": "focal"},
}
FINAL = [BASELINE, "label smoothing 0.1", "MbLS", "MbLS, margin 5"]
DATA_SETS = {
    "choose": {
        "digits": partial(load_digits, return_X_y=True),
        "breast cancer": partial(load_breast_cancer, return_X_y=True),
        "mnist": partial(read_images, "mnist"),
        "letter": partial(read_table, "letter"),
        "spambase": partial(read_table, "spambase"),
        "adult": partial(read_table, "adult"),
        "waveform": read_waveform,
        "binary": read_binary,
    },
    "confirm": {
        "pendigits": partial(read_table, "pendigits"),
        "segment": partial(read_table, "segment"),
        "krkopt, draw": read_draws,
        "satimage": partial(read_table, "satimage"),
        "fashion": partial(read_images, "fashion_mnist"),
        "german credit": partial(read_table, "german_credit"),
        "clusters": read_clusters,
        "mixture": read_mixture,
    },
}
BOUNDS = [0.0, 0.8, 0.85, 0.9, 0.92, 0.94, 0.96, 0.98, 0.99, 0.995]
KEYS = ["data", "variant", "seed"]
ACCURACIES = ["train accuracy", "valid accuracy", "accuracy"]
SCALED = ["scaled log loss", "scaled ECE"]
FIELDS = [*KEYS, *ACCURACIES, "log loss", "ECE", "T", *SCALED]


@cache
def read_data(name):
    """Return all samples of a data set."""
    X, y = {**DATA_SETS["choose"], **DATA_SETS["confirm"]}[name]()
    return X.astype(np.float32), y.astype(np.int64)


def read_splits(name, seed):
    """Return the training, validation and test sets of a seed."""
    X, y = read_data(name)
    order = np.random.default_rng(seed).permutation(len(y))
    sizes = [min(N_TRAIN, int(0.6 * len(y))), min(N_VALID, int(0.15 * len(y)))]
    train, valid, test, *_ = np.split(order, np.cumsum([*sizes, MOST_TEST]))
    scaler = StandardScaler().fit(X[train])
    return [(scaler.transform(X[part]), y[part]) for part in (train, valid, test)]


def measure(name, variant, seed):
    """Train a network, and return the fields of its result."""
    (X_train, y_train), (X, y), (X_test, y_test) = read_splits(name, seed)
    model = NeuralClassifier(random_state=seed, **VARIANTS[variant])
    model.fit(X_train, y_train)
    proba = model.predict_proba(X_test)
    scaling = TemperatureScaling(from_logits=True)
    scaling.fit(model.decision_function(X), y, labels=model.classes_)
    scaled = scaling.predict_proba(model.decision_function(X_test))
    values = [
        model.score(X_train, y_train),
        model.score(X, y),
        model.score(X_test, y_test),
        log_loss(y_test, proba),
        expected_calibration_error(y_test, proba),
        scaling.temperature_,
        log_loss(y_test, scaled),
        expected_calibration_error(y_test, scaled),
    ]
    return [f"{value:.5g}" for value in values]


def print_tables(results):
    """Print the ratios to cross-entropy, and those of rules by the accuracy."""
    means = results.groupby(["variant", "data"], sort=False)[FIELDS[3:]].mean()
    base = means.loc[BASELINE].sort_values("valid accuracy")
    for metric in SCALED:
        ratio = means[metric].unstack("data")[base.index] / base[metric]
        print(f"\n{metric}, ratio to {BASELINE}\n{ratio.round(2).to_string()}")
    print(f"\n{BASELINE}\n{base.T.round(4).to_string()}")
    ratio = np.log(means["scaled log loss"].unstack("data") / base["scaled log loss"])
    for accuracy in ACCURACIES[:2]:
        rules = {}
        for bound in BOUNDS:
            rule = ratio * (base[accuracy] >= bound)
            rules[bound] = rule.agg(["mean", "sem"], axis=1).apply(
                lambda row: f"{np.exp(row['mean']):.3f} ({row['sem']:.3f})", axis=1
            )
        table = pd.DataFrame(rules).drop(index=BASELINE).to_string()
        print(f"\nlog loss, if used from this {accuracy} on\n{table}")


def main():
    """Compute the missing results, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("half", choices=DATA_SETS)
    parser.add_argument("--seeds", type=int, nargs="+", default=range(3))
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message=".* needs about .* misclassified samples")
    names = DATA_SETS[options.half]
    variants = VARIANTS if options.half == "choose" else FINAL
    with open_results(options.file, FIELDS, len(KEYS)) as (done, append):
        for seed, name, variant in product(options.seeds, names, variants):
            key = name, variant, seed
            if tuple(map(str, key)) not in done:
                append([*key, *measure(*key)])
    print_tables(pd.read_csv(options.file).query("data in @names"))


if __name__ == "__main__":
    main()
