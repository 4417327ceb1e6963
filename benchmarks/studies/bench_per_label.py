"""Calibration error of a multilabel network, before and after calibration.

    python benchmarks/studies/bench_per_label.py

The logits are those of a DenseNet-121 for seven findings in 16082 chest radiographs
(NIH ChestX-ray14), from the folder `logits` of the shared data (`SKLEARN_CALIB_DATA`).
Each calibrator is fitted for each label to a random half and evaluated on the other
half. Prints one row per calibrator: the calibration error of each label in percent with
15 bins, its mean over the labels, and the mean log loss. The last row is a logistic
regression of each label on its logit.
"""

import argparse
from pathlib import Path

import numpy as np
from bench_public_logits import DATA
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from sklearn_calib.calibrators import (
    PerLabelCalibrator,
    get_calibrator,
    get_calibrator_names,
)
from sklearn_calib.metrics import expected_calibration_error, per_label

FILE = "nih_chestxray_densenet121_multilabel_a.npz"


def print_row(name, y_true, y_proba):
    """Print the errors of the labels, their mean and the log loss."""
    errors = per_label(expected_calibration_error, y_true, y_proba, average=None)
    cells = "".join(f"{100 * error:7.2f}" for error in (*errors, errors.mean()))
    print(f"{name:<20}{cells}{per_label(log_loss, y_true, y_proba):9.4f}")


def predict_by_regression(x, y, x_test):
    """Return the probability of one label by logistic regression on its logits."""
    model = LogisticRegression(C=1e6).fit(x[:, np.newaxis], y)
    return model.predict_proba(x_test[:, np.newaxis])[:, 1]


def main():
    """Parse the command line, fit, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA / "logits")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    data = np.load(args.data / FILE)
    order = np.random.default_rng(args.seed).permutation(len(data["labels"]))
    train, test = order[::2], order[1::2]
    X, y = data["logits"], data["labels"]
    frequency = "".join(f"{100 * rate:7.2f}" for rate in y[test].mean(axis=0))
    print(f"{'frequency':<20}{frequency}")
    print_row("none", y[test], expit(X[test]))
    for name in get_calibrator_names():
        calibrator = PerLabelCalibrator(get_calibrator(name)(from_logits=True))
        fitted = calibrator.fit(X[train], y[train])
        print_row(name, y[test], fitted.predict_proba(X[test]))
    columns = zip(X[train].T, y[train].T, X[test].T, strict=True)
    proba = np.column_stack([predict_by_regression(*each) for each in columns])
    print_row("logistic regression", y[test], proba)


if __name__ == "__main__":
    main()
