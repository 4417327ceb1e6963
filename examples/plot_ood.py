"""
=============================================================
Calibrated confidence is not better at telling what is unseen
=============================================================

A network that knows clothes is shown digits. Its confidence ought to fall, and that it
is calibrated on clothes does not say that it does. We train one network with five
losses, ask how well several confidences tell digits from clothes, and how calibration
lasts while noise is added to the clothes themselves. Temperature scaling repairs the
calibration of all, and costs some of them much of the other.

Takes about a minute on two cores. Prints four tables, and writes a figure into the
folder `ood_output`.
"""

# Authors: The sklearn_calib developers
# SPDX-License-Identifier: BSD-3-Clause

# %%
# Images
# ------
# Fashion-MNIST to train and to test, and MNIST as what was not trained for, at half
# their height and width, out of the folder that `SKLEARN_CALIB_DATA` names. Where they
# are not found, the handwritten digits of scikit-learn: 0 to 7 are known, 8 and 9 are
# not.

import os
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

DATA = Path(os.environ.get("SKLEARN_CALIB_DATA", "../shared/data")) / "images"
OUTPUT = Path("ood_output")
OUTPUT.mkdir(exist_ok=True)


def load_half(name, n_samples):
    """Return images of half the size, in [0, 1], and their labels."""
    data = np.load(DATA / f"{name}.npz")
    blocks = data["images"][:n_samples].reshape(n_samples, 1, 14, 2, 14, 2)
    return blocks.mean(axis=(3, 5)) / 255, data["labels"][:n_samples]


if (DATA / "fashion_mnist_train.npz").exists():
    X_train, y_train = load_half("fashion_mnist_train", 7000)
    X_test, y_test = load_half("fashion_mnist_test", 3000)
    X_out, _ = load_half("mnist_test", 3000)
else:
    X, y = load_digits(return_X_y=True)
    X = (X / 16).reshape(-1, 1, 8, 8)
    known = y < 8
    X_out = X[~known]
    X_train, X_test, y_train, y_test = train_test_split(
        X[known], y[known], test_size=0.5, stratify=y[known], random_state=0
    )

images_test = X_test  # for the noise
X_train, X_test, X_out = [X.reshape(len(X), -1) for X in (X_train, X_test, X_out)]
X_train, X_held_out, y_train, y_held_out = train_test_split(
    X_train, y_train, test_size=2 / 7, stratify=y_train, random_state=0
)

# %%
# Five losses
# -----------
# Five networks with each. Label smoothing, focal loss and margin-based label smoothing
# keep the network from being too sure of what it sees; LogitNorm takes the length of
# the logits out of the loss, with the confidence elsewhere in mind. Each network is
# looked at as it was trained, and with a temperature from held-out images.

import torch
from joblib import Parallel, delayed
from sklearn.frozen import FrozenEstimator

from sklearn_calib import CalibratedClassifier, NeuralClassifier, TemperatureScaling

LOSSES = {
    "cross-entropy": {},
    "label smoothing": {"loss__label_smoothing": 0.05},
    "focal": {"loss": "focal", "loss__gamma": 3.0},
    "MbLS": {"loss": "mbls"},
    "LogitNorm": {"loss": "logitnorm"},
}
SEEDS = range(5)


def train(params, seed):
    """Return a network, trained by one core, and the same with a temperature."""
    torch.set_num_threads(1)
    network = NeuralClassifier(max_epochs=25, random_state=seed, **params)
    network.fit(X_train, y_train)
    scaled = CalibratedClassifier(FrozenEstimator(network), TemperatureScaling())
    return network, scaled.fit(X_held_out, y_held_out)


trained = Parallel(n_jobs=2)(
    delayed(train)(params, seed) for params in LOSSES.values() for seed in SEEDS
)
networks = {
    name + suffix: [pair[stage] for pair in trained[first : first + len(SEEDS)]]
    for stage, suffix in enumerate(["", ", scaled"])
    for name, first in zip(LOSSES, range(0, len(trained), len(SEEDS)), strict=True)
}

# %%
# What it was trained for
# -----------------------
# One network of each, with intervals for the draw of the test images.

import pandas as pd

from sklearn_calib.evaluation import compare

table = compare(
    {name: seeds[0] for name, seeds in networks.items()},
    X_test,
    y_test,
    metrics={
        "accuracy": "accuracy",
        "ECE": "neg_ece",
        "AUC, one vs rest": "roc_auc_ovr",
        "refinement AUC": "refinement_auc",
    },
    n_resamples=200,
    n_jobs=2,
    random_state=0,
)
cells = {
    name: [f"{v:.3f} ({a:.3f}, {b:.3f})" for v, a, b in table[name].to_numpy()]
    for name in table.columns.unique(0)
}
print("On test images, with 95 % intervals")
print(pd.DataFrame(cells, index=table.index).to_string(), end="\n\n")

# %%
# What it was not trained for
# ---------------------------
# The measures of the tables of papers, by the largest probability: the mean of five
# networks, and how far the AUROCs of the five are apart.

from sklearn_calib.evaluation import evaluate_ood


def mean_over_seeds(measure, names=networks):
    """Return a table of a measure that returns a dict, and its range over seeds."""
    rows = {name: pd.DataFrame(map(measure, networks[name])) for name in names}
    mean = pd.DataFrame({name: row.mean() for name, row in rows.items()}).T
    spread = {name: row.max() - row.min() for name, row in rows.items()}
    return mean, pd.DataFrame(spread).T


mean, spread = mean_over_seeds(lambda network: evaluate_ood(network, X_test, X_out))
print("Unseen against test images, by the largest probability")
print(mean.assign(range_of_auroc=spread["auroc"]).round(3).to_string(), end="\n\n")

CONFIDENCES = ["msp", "margin", "negative_entropy", "max_logit"]


def auroc_by_confidence(network):
    """Return the AUROC of each confidence."""
    return {
        confidence: evaluate_ood(network, X_test, X_out, confidence=confidence)["auroc"]
        for confidence in CONFIDENCES
    }


mean, _ = mean_over_seeds(auroc_by_confidence, LOSSES)
print("AUROC of unseen against test images, by confidence, as trained")
print(mean.round(3).to_string(), end="\n\n")

# %%
# Noise
# -----
# The test images with the Gaussian noise of CIFAR-10-C. Calibration errors at every
# severity, and their mean, as the tables of papers have it.

from sklearn_calib.datasets import corrupt_images
from sklearn_calib.metrics import expected_calibration_error

SEVERITIES = range(6)
noisy = [X_test]
for severity in SEVERITIES[1:]:
    X = corrupt_images(images_test, "gaussian_noise", severity=severity, random_state=0)
    noisy.append(X.reshape(len(X), -1))


def ece_by_severity(network):
    """Return the calibration error at each severity."""
    return {
        severity: expected_calibration_error(y_test, network.predict_proba(X))
        for severity, X in enumerate(noisy)
    }


errors, _ = mean_over_seeds(ece_by_severity)
accuracy, _ = mean_over_seeds(lambda n: {s: n.score(noisy[s], y_test) for s in (0, 5)})
summary = {
    "ECE": errors[0],
    "mean ECE of 1 to 5": errors.loc[:, 1:].mean(axis=1),
    "accuracy": accuracy[0],
    "accuracy at 5": accuracy[5],
}
print("With Gaussian noise")
print(pd.DataFrame(summary).round(3).to_string(), end="\n\n")

# %%
# Look
# ----
# What came out of Fashion-MNIST, on the machine where this was written. By the largest
# probability of the networks as trained, LogitNorm is ahead, with the AUROC 0.916
# against 0.850 of cross-entropy and 0.883 of focal loss. But its probabilities are all
# near 0.1, with an ECE of 0.71; a temperature repairs that, to 0.02, and takes the lead
# away: 0.857 against 0.856 and 0.825. What flat probabilities rank by is near the
# largest logit, which for focal loss has the AUROC 0.966 and for cross-entropy 0.950,
# more than any function of the probabilities. A temperature does not touch it.
#
# On the digits that stand in for these images every AUROC falls with the temperature
# too, and LogitNorm stays ahead, with 0.924 against 0.859 of cross-entropy.
#
# Five networks with the same loss are up to 0.04 apart. Noise of this kind costs 3 to 4
# points of accuracy and hardly any calibration: confidence falls with the accuracy.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
scaled = [name for name in networks if name.endswith("scaled")]
for ax, name in zip(axes[:2], [scaled[0], scaled[-1]], strict=True):
    for X, label in [(X_test, "seen kinds"), (X_out, "unseen kinds")]:
        confidence = networks[name][0].predict_proba(X).max(axis=1)
        ax.hist(confidence, np.linspace(0, 1, 31), density=True, alpha=0.6, label=label)
    ax.set(title=name, xlabel="Confidence", ylabel="Density")
axes[0].legend()
axes[2].plot(errors.loc[scaled].T, marker="o", label=scaled)
axes[2].set(title="Gaussian noise", xlabel="Severity", ylabel="ECE", ylim=(0, None))
axes[2].legend()
figure.savefig(OUTPUT / "confidence.png", dpi=100)
print(f"The figure is in {OUTPUT}/")
