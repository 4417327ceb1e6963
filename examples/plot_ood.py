"""
================================================================
Calibration does not improve out-of-distribution (OOD) detection
================================================================

A network that was trained on images of clothes should have a low confidence for images
of digits. Calibration on clothes does not guarantee this. We train a network with five
losses and measure how well several confidence scores separate digits from clothes, and
how the calibration error changes when noise is added to the clothes. Temperature
scaling calibrates all networks, and makes some of them worse at OOD detection.

Takes about a minute on two cores. Prints four tables and writes a figure to the
folder `ood_output`.
"""

# Authors: The sklearn_calib developers
# SPDX-License-Identifier: BSD-3-Clause

# %%
# Images
# ------
# Fashion-MNIST is the in-distribution (ID) data and MNIST the out-of-distribution (OOD)
# data, at half their height and width, from the folder in the environment variable
# `SKLEARN_CALIB_DATA`. If they are not available, the handwritten digits of
# scikit-learn are used: 0 to 7 are ID, 8 and 9 OOD.

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

images_test = X_test  # to add noise to
X_train, X_test, X_out = [X.reshape(len(X), -1) for X in (X_train, X_test, X_out)]
X_train, X_held_out, y_train, y_held_out = train_test_split(
    X_train, y_train, test_size=2 / 7, stratify=y_train, random_state=0
)

# %%
# Five losses
# -----------
# Five networks are trained with each loss. Label smoothing, focal loss and margin-based
# label smoothing reduce overconfidence. LogitNorm removes the norm of the logits from
# the loss, and was proposed for OOD detection. Each network is evaluated as trained and
# with a temperature fitted to held-out images.

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
    """Return a network trained on one core, and the same with a temperature."""
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
# In-distribution
# ---------------
# The table shows one network per loss, with confidence intervals over the draw of the
# test images.

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
print("On test images, with 95 % intervals")
print(table, end="\n\n")

# %%
# Out-of-distribution
# -------------------
# The table shows the usual metrics of OOD detection by the largest probability: means
# over five networks, and the range of their AUROCs.

from sklearn_calib.evaluation import evaluate_ood


def mean_over_seeds(measure, names=networks):
    """Return a table of a measure that returns a dict, and its range over seeds."""
    rows = {name: pd.DataFrame(map(measure, networks[name])) for name in names}
    mean = pd.DataFrame({name: row.mean() for name, row in rows.items()}).T
    spread = {name: row.max() - row.min() for name, row in rows.items()}
    return mean, pd.DataFrame(spread).T


mean, spread = mean_over_seeds(lambda network: evaluate_ood(network, X_test, X_out))
print("OOD detection by the largest probability")
print(mean.assign(range_of_auroc=spread["auroc"]).round(3).to_string(), end="\n\n")

CONFIDENCES = ["msp", "margin", "negative_entropy", "max_logit"]


def auroc_by_confidence(network):
    """Return the AUROC of each confidence."""
    return {
        confidence: evaluate_ood(network, X_test, X_out, confidence=confidence)["auroc"]
        for confidence in CONFIDENCES
    }


mean, _ = mean_over_seeds(auroc_by_confidence, LOSSES)
print("AUROC of OOD detection by each confidence score, as trained")
print(mean.round(3).to_string(), end="\n\n")

# %%
# Noise
# -----
# The Gaussian noise of CIFAR-10-C is added to the test images. The table shows the
# calibration error at each severity, and the mean over severities that papers report.

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
# Results
# -------
# On Fashion-MNIST, LogitNorm has the highest AUROC by the largest probability as
# trained: 0.916, against 0.850 for cross-entropy and 0.883 for focal loss. However, its
# probabilities are all near 0.1, with an ECE of 0.71. Temperature scaling reduces the
# ECE to 0.02 and the AUROC to 0.857, against 0.856 for cross-entropy and 0.826 for
# focal loss.
#
# Nearly uniform probabilities rank the samples almost like the largest logit. The
# largest logit has an AUROC of 0.966 for focal loss and 0.950 for cross-entropy, more
# than any function of the probabilities, and temperature scaling does not change it.
#
# On the digits, temperature scaling decreases every AUROC. LogitNorm keeps the
# highest, 0.924 against 0.859 for cross-entropy.
#
# The AUROCs of five networks with the same loss differ by up to 0.04. The noise reduces
# the accuracy by 3 to 4 points and hardly changes the calibration error: the confidence
# decreases with the accuracy.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
scaled = [name for name in networks if name.endswith("scaled")]
for ax, name in zip(axes[:2], [scaled[0], scaled[-1]], strict=True):
    for X, label in [(X_test, "in-distribution"), (X_out, "out-of-distribution")]:
        confidence = networks[name][0].predict_proba(X).max(axis=1)
        ax.hist(confidence, np.linspace(0, 1, 31), density=True, alpha=0.6, label=label)
    ax.set(title=name, xlabel="Confidence", ylabel="Density")
axes[0].legend()
axes[2].plot(errors.loc[scaled].T, marker="o", label=scaled)
axes[2].set(title="Gaussian noise", xlabel="Severity", ylabel="ECE", ylim=(0, None))
axes[2].legend()
figure.savefig(OUTPUT / "confidence.png", dpi=100)
print(f"The figure is in {OUTPUT}/")
