"""Compare settings of r-AURC with cross-entropy.

    python benchmarks/papers/bench_regularized_aurc.py FILE choose
    python benchmarks/papers/bench_regularized_aurc.py FILE confirm

Trains networks with the defaults of NeuralClassifier (50 epochs, mini-batches of 128,
unless stated otherwise) on 3,200 rows of the data sets of `bench_adafocal_small.py`,
with cross-entropy and with each setting of r-AURC, and computes metrics of up to 8,000
test rows. Results in the CSV file are not computed again. Then prints the AURC, the ECE
in 15 bins, the class-wise ECE and the log loss as ratio to those of cross-entropy with
the same batch size (means of the seeds), as the geometric mean over the data sets with
its standard error, and the mean difference in accuracy. "weights" are the smallest and
the largest rank weight in a batch of test rows, in the median over the networks.
Settings are chosen on one half of the data sets, and those of FINAL are confirmed on
the other half. `results/regularized_aurc.csv` has seed 0 of the first half, and seeds 0
and 1 of the second.

The data are read from the folder in the environment variable SKLEARN_CALIB_DATA, or
from `shared/data` next to the checkout. Uses one thread.
"""

import argparse
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from bench_adafocal_small import open_results, read_splits
from sklearn.metrics import log_loss

from sklearn_calib import NeuralClassifier
from sklearn_calib.losses import regularized_aurc_loss
from sklearn_calib.metrics import (
    aurc_loss,
    classwise_calibration_error,
    expected_calibration_error,
)

DATA_SETS = {
    "choose": [
        *("waveform", "mixture", "fashion", "cifar10"),
        *("letter", "adult", "spambase"),
    ],
    "confirm": [
        *("clusters", "binary", "mnist", "20news_bydate_train"),
        *("clinc150_full_oos", "pendigits", "satimage"),
    ],
}
BASELINE = "cross-entropy"
LARGE = ", batches of 512"
VARIANTS = {
    BASELINE: None,
    "authors": {"epsilon": 0.05},
    "0.005": {"epsilon": 0.005},
    "0.001": {"epsilon": 0.001},
    "0.0003": {"epsilon": 0.0003},
    "0.0001": {"epsilon": 0.0001},
    "auto": {"epsilon": "auto"},
    "0.001, entropy": {"epsilon": 0.001, "confidence": "negative_entropy"},
    "0.001, lambd 0.9": {"epsilon": 0.001, "lambd": 0.9},
    BASELINE + LARGE: None,
    "0.001" + LARGE: {"epsilon": 0.001},
    "0.00025" + LARGE: {"epsilon": 0.00025},
}
FINAL = [BASELINE, "authors", "0.001", "auto"]
KEYS = ["data", "variant", "seed"]
METRICS = ["AURC", "ECE", "class-wise ECE", "log loss"]
FIELDS = [*KEYS, "accuracy", *METRICS, "lowest weight", "highest weight"]


def measure(name, variant, seed):
    """Train a network, and return the fields of its result."""
    (X, y), _, _, (X_test, y_test) = read_splits(name, seed)
    settings, size = VARIANTS[variant], 512 if variant.endswith(LARGE) else 128
    loss = {"loss": "cross_entropy"}
    if settings is not None:
        loss = {f"loss__{key}": value for key, value in settings.items()}
        loss["loss"] = "regularized_aurc"
    model = NeuralClassifier(batch_size=size, random_state=seed, **loss).fit(X, y)
    proba = model.predict_proba(X_test)
    logits = torch.from_numpy(model.decision_function(X_test[:size]))
    values = [
        model.score(X_test, y_test),
        aurc_loss(y_test, proba),
        expected_calibration_error(y_test, proba),
        classwise_calibration_error(y_test, proba),
        log_loss(y_test, proba),
        *weight_range(logits, settings),
    ]
    return [f"{value:.5g}" for value in values]


def weight_range(logits, settings):
    """Return the smallest and the largest rank weight of a batch."""
    if settings is None:
        return 1, 1
    if logits.ndim == 1:
        logits = torch.stack([torch.zeros_like(logits), logits], 1)
    # The label does not change the weights.
    params = {"target": torch.zeros(len(logits), dtype=torch.long), "reduction": "none"}
    params |= settings
    base, weighted = (
        regularized_aurc_loss(logits.double(), **params | {"lambd": lambd})
        for lambd in (0.0, 1.0)
    )
    weights = (weighted / base)[base > 0]
    return weights.min(), weights.max()


def make_table(results):
    """Return the ratios to cross-entropy, and the weights."""
    rows = results.groupby(["variant", "data"], sort=False)[FIELDS[3:]].mean()
    medians = results.groupby("variant", sort=False)[FIELDS[-2:]].median()
    table = {}
    for variant in rows.index.unique("variant"):
        is_large = variant.endswith(LARGE)
        base = rows.loc[f"{BASELINE}{LARGE}" if is_large else BASELINE]
        ratio = np.log(rows.loc[variant, METRICS] / base[METRICS])
        change = 100 * (rows.loc[variant, "accuracy"] - base["accuracy"])
        table[variant] = {
            metric: f"{np.exp(ratio[metric].mean()):.3f} ({ratio[metric].sem():.3f})"
            for metric in METRICS
        } | {
            "accuracy": f"{change.mean():+.2f} ({change.sem():.2f})",
            "weights": "{:.2f} to {:.2f}".format(*medians.loc[variant]),
        }
    return pd.DataFrame(table).T


def main():
    """Compute the missing results, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("half", choices=DATA_SETS)
    parser.add_argument("--seeds", type=int, nargs="+", default=range(2))
    options = parser.parse_args()
    torch.set_num_threads(1)
    names = DATA_SETS[options.half]
    variants = VARIANTS if options.half == "choose" else FINAL
    with open_results(options.file, FIELDS, len(KEYS)) as (done, append):
        for seed, name, variant in product(options.seeds, names, variants):
            key = name, variant, seed
            if tuple(map(str, key)) not in done:
                append([*key, *measure(*key)])
    print(make_table(pd.read_csv(options.file).query("data in @names")).to_string())


if __name__ == "__main__":
    main()
