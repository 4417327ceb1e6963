"""
====================================================
Regularised AURC: a loss for selective prediction
====================================================

The area under the risk-coverage curve (AURC) is low if a classifier makes errors only
at low confidence. The regularised AURC (r-AURC, Zhou et al. 2025) turns it into a loss:
soft ranks of the confidences weight the cross-entropy of each sample. We show these
weights, search over the parameters of the loss and compare it with three other losses.
On these images r-AURC does not lower the AURC, and the focal loss lowers the
calibration error more. Finally a classifier abstains so that its error rate is bounded.

Takes about two minutes on two cores. Prints its tables and writes the risk-coverage
curves and the results of the search to the folder `aurc_output`.
"""

# Authors: The sklearn_calib developers
# SPDX-License-Identifier: BSD-3-Clause

# %%
# Images
# ------
# 2000 training images and 5000 test images of Fashion-MNIST, at half their height and
# width to shorten the search, from the folder in the environment variable
# `SKLEARN_CALIB_DATA`. If they are not available, the handwritten digits of
# scikit-learn are used. They are too easy, so noise is added to every pixel (standard
# deviation: half the grey scale).

import os
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

DATA = Path(os.environ.get("SKLEARN_CALIB_DATA", "../shared/data")) / "images"
OUTPUT = Path("aurc_output")
OUTPUT.mkdir(exist_ok=True)


def load_fashion(part, n_samples):
    """Return images of Fashion-MNIST as rows of pixels, and their labels."""
    data = np.load(DATA / f"fashion_mnist_{part}.npz")
    blocks = data["images"][:n_samples].reshape(n_samples, 14, 2, 14, 2)
    pixels = blocks.mean(axis=(2, 4)).reshape(n_samples, -1) / 255
    return pixels, data["labels"][:n_samples]


if (DATA / "fashion_mnist_train.npz").exists():
    X_train, y_train = load_fashion("train", 2000)
    X_test, y_test = load_fashion("test", 5000)
else:
    X, y = load_digits(return_X_y=True)
    X = X / 16 + np.random.default_rng(0).normal(scale=0.5, size=X.shape)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.5, stratify=y, random_state=0
    )

# %%
# Weights of the samples
# ----------------------
# The weight of a sample is -log(1 - r / (n + 1)), where r is the rank of its confidence
# among the n samples of the mini-batch. With a large epsilon, the soft ranks differ
# less. With 0.05, the value of the paper, the weights hardly differ, and the loss is
# nearly a multiple of the cross-entropy. "auto" computes epsilon from the mini-batch.

import pandas as pd
import torch

from sklearn_calib import NeuralClassifier
from sklearn_calib.losses import regularized_aurc_loss

EPOCHS = 30
EPSILONS = [0.005, 0.01, 0.02, 0.05, 0.1, "auto"]
BATCH = X_train[:128]


def weight_range(confidence, epsilon):
    """Return the lowest and the highest weight in a mini-batch."""
    values = regularized_aurc_loss(
        torch.zeros(len(confidence), 2),  # every sample has the cross-entropy log 2
        torch.zeros(len(confidence), dtype=int),
        lambd=1.0,
        epsilon=epsilon,
        confidence=lambda _: torch.as_tensor(confidence),
        reduction="none",
    )
    lowest, highest = values.aminmax()
    return f"{lowest / np.log(2):.3f} to {highest / np.log(2):.2f}"


batches = {"evenly spaced from 0.1 to 1": np.linspace(0.1, 1, len(BATCH))}
for epochs in [1, EPOCHS]:
    network = NeuralClassifier(lr=0.003, max_epochs=epochs, random_state=0)
    proba = network.fit(X_train, y_train).predict_proba(BATCH)
    batches[f"after epoch {epochs}"] = proba.max(axis=1)
table = pd.DataFrame(
    {
        name: {epsilon: weight_range(batch, epsilon) for epsilon in EPSILONS}
        for name, batch in batches.items()
    }
)
print("Weights in a mini-batch of 128, by epsilon and confidences")
print(table.to_string(), end="\n\n")

# %%
# Search over the parameters
# --------------------------
# We search over all parameters of r-AURC, as in tables 9 and 10 of the paper, and over
# gamma of the focal losses. As in these tables, epsilon matters most with lambd = 1,
# where the loss is the AURC term alone. A small epsilon lowers the accuracy.

from sklearn.model_selection import GridSearchCV

torch.set_num_threads(1)  # the search uses the cores
grids = [
    {"loss": ["cross_entropy"]},
    {"loss": ["focal"], "loss__gamma": [1.0, 2.0, 3.0]},
    {"loss": ["inverse_focal"], "loss__gamma": [1.0, 2.0, 3.0]},
    *(
        {
            "loss": ["regularized_aurc"],
            "loss__confidence": [confidence],
            "loss__lambd": [0.5, 1.0],
            "loss__epsilon": EPSILONS,
        }
        for confidence in ["msp", "margin", "negative_entropy"]
    ),
]
network = NeuralClassifier(lr=0.003, max_epochs=EPOCHS, random_state=0)
search = GridSearchCV(
    network,
    grids,
    scoring=["accuracy", "neg_ece", "neg_aurc"],
    refit=False,
    cv=3,
    n_jobs=2,
).fit(X_train, y_train)

results = pd.DataFrame(search.cv_results_)
results.to_csv(OUTPUT / "search.csv", index=False)
results = pd.DataFrame(search.cv_results_["params"]).assign(
    accuracy=results["mean_test_accuracy"],
    ECE=-results["mean_test_neg_ece"],
    AURC=-results["mean_test_neg_aurc"],
)
results.columns = results.columns.str.removeprefix("loss__")
table = results.pivot_table(
    index=["confidence", "epsilon"],
    columns="lambd",
    values=["accuracy", "ECE", "AURC"],
    sort=False,
)
columns = ["loss", "gamma", "accuracy", "ECE", "AURC"]
others = results.loc[results["confidence"].isna(), columns]
print("In cross-validation")
print(others.to_string(index=False, na_rep="", float_format="{:.3f}".format))
print("\nRegularised AURC in cross-validation, by confidence, epsilon and lambd")
print(table.to_string(float_format="{:.3f}".format), end="\n\n")

# %%
# Compare
# -------
# We select the candidate of each family with the lowest AURC, for r-AURC among those
# with lambd = 0.5. Unlike the calibration error, the AURC suffices as the criterion,
# since it requires a low error rate too. Each candidate is trained with five seeds and
# tested before and after temperature scaling. The last column is a 95 % bootstrap
# interval, over test images and seeds, of the difference in AURC from cross-entropy. An
# interval that contains zero does not show a difference.

from joblib import Parallel, delayed
from sklearn.base import clone

from sklearn_calib import CalibratedClassifier, TemperatureScaling
from sklearn_calib.metrics import (
    aurc_loss,
    classwise_calibration_error,
    expected_calibration_error,
)

SEEDS = range(5)
candidates = search.cv_results_["params"]
mixed = results[results["lambd"] != 1]
families = mixed["loss"] + mixed["confidence"].radd(", ").fillna("")
best = mixed.groupby(families, sort=False)["AURC"].idxmin()
chosen = {name: candidates[row] for name, row in best.items()}
print("Selected for each family")
for name, params in chosen.items():
    print(f"{name:34}", {k.removeprefix("loss__"): v for k, v in params.items()})


def train_and_scale(params, seed):
    """Return test probabilities before and after temperature scaling."""
    model = clone(network).set_params(random_state=seed, **params)
    model = CalibratedClassifier(model, TemperatureScaling(), cv=3, ensemble=False)
    plain = model.fit(X_train, y_train).calibrated_classifiers_[0].estimator
    return plain.predict_proba(X_test), model.predict_proba(X_test)


probas = Parallel(n_jobs=2)(
    delayed(train_and_scale)(params, seed)
    for params in chosen.values()
    for seed in SEEDS
)
probas = np.reshape(probas, (len(chosen), len(SEEDS), 2, *probas[0][0].shape))


def mean_over_seeds(metric, model, stage, seeds=SEEDS, **options):
    """Return a metric of one model, before (0) or after (1) scaling."""
    return np.mean([metric(y_test, probas[model, s, stage], **options) for s in seeds])


rng = np.random.default_rng(0)
draws = np.empty((200, len(chosen), 2))
for draw in draws:
    weight = rng.multinomial(len(y_test), np.full(len(y_test), 1 / len(y_test)))
    seeds = rng.choice(SEEDS, len(SEEDS))
    for model, stage in np.ndindex(draw.shape):
        draw[model, stage] = mean_over_seeds(
            aurc_loss, model, stage, seeds, sample_weight=weight
        )
low, high = np.quantile(draws - draws[:, :1], [0.025, 0.975], axis=0)

rows = {}
for stage, when in enumerate(["", ", scaled"]):
    for model, name in enumerate(chosen):
        rows[name + when] = {
            "accuracy": np.mean(probas[model, :, stage].argmax(axis=2) == y_test),
            "ECE": mean_over_seeds(expected_calibration_error, model, stage),
            "AURC": mean_over_seeds(aurc_loss, model, stage),
            "AURC difference": f"{low[model, stage]:+.3f} to {high[model, stage]:+.3f}",
        }
print("\nOn the test images, mean over five seeds")
print(pd.DataFrame(rows).T.to_string(float_format="{:.3f}".format), end="\n\n")

# %%
# Results
# -------
# With Fashion-MNIST, on the machine where this was written, every AURC is between 0.054
# and 0.056, and all intervals contain zero.
#
# The ECE is 0.059 with cross-entropy, 0.053 to 0.058 with r-AURC, 0.099 with the
# inverse focal loss and 0.015 with the focal loss. After temperature scaling it is
# 0.020 to 0.025 for all losses.
#
# In the upper panels, the risk is the error rate of the most confident images, over all
# five seeds together. The lower panels show the difference from the curve of
# cross-entropy.

import matplotlib.pyplot as plt

from sklearn_calib.displays import RiskCoverageDisplay

figure, axes = plt.subplots(
    2,
    2,
    figsize=(13, 8),
    height_ratios=[2, 1],
    sharex=True,
    sharey="row",
    layout="constrained",
)
for stage, (above, below) in enumerate(axes.T):
    above.set_title(["As trained", "After temperature scaling"][stage])
    curves = [
        RiskCoverageDisplay.from_predictions(
            np.tile(y_test, len(SEEDS)),
            np.concatenate(probas[model, :, stage]),
            name=name,
            ax=above,
        )
        for model, name in enumerate(chosen)
    ]
    for curve in curves:
        color = curve.line_.get_color()
        below.plot(curve.coverage, curve.risk - curves[0].risk, color=color)
    above.set_xlabel("")
    below.set(xlabel="Coverage", ylabel="Risk minus cross-entropy's")
figure.savefig(OUTPUT / "risk_coverage.png", dpi=100)

# %%
# The value of a perfect ranking
# ------------------------------
# Suppose that the confidence separated correct from wrong predictions perfectly. Then a
# calibrator could give all correct predictions the confidence 1. It could give the
# wrong ones the confidence 1 / K, to lower the calibration error, or at most 1 / 2, to
# lower the class-wise calibration error (propositions 4.2 and 4.4 of the paper). These
# maps lower the largest error over all choices of bins, which here is that of the
# narrowest bins.
#
# We apply both maps with an oracle that knows the labels. We also apply them without an
# oracle, with the most confident images of the network in place of the correct ones.
#
# With Fashion-MNIST, the first map is also the better one for the class-wise error.
# With 15 bins, the second map is worse than no map. Without the oracle, both are worse.


def oracle_maps(proba, correct):
    """Return the probabilities of both maps, with rows that sum to one."""
    n_classes = proba.shape[1]
    top = np.eye(n_classes)[proba.argmax(axis=1)]
    uniform = (1 - 1e-9) / n_classes + 1e-9 * top  # keeps the predicted class
    excess = np.maximum(proba.max(axis=1, keepdims=True) - 0.5, 0)
    halved = proba - excess * top + excess * (1 - top) / (n_classes - 1)
    return [np.where(correct[:, None], top, wrong) for wrong in (uniform, halved)]


plain, scaled = probas[0, 0]
confidence, correct = plain.max(axis=1), plain.argmax(axis=1) == y_test
confident = confidence >= np.quantile(confidence, 1 - correct.mean())
maps = {"as trained": plain, "scaled": scaled}
for how, chosen_rows in [("oracle", correct), ("most confident", confident)]:
    maps[f"1 / K, {how}"], maps[f"1 / 2, {how}"] = oracle_maps(plain, chosen_rows)
narrowest = {"n_bins": len(y_test), "strategy": "quantile"}
table = {
    name: {
        "ECE": expected_calibration_error(y_test, proba),
        "highest ECE": expected_calibration_error(y_test, proba, **narrowest),
        "class-wise ECE": classwise_calibration_error(y_test, proba),
        "highest class-wise": classwise_calibration_error(y_test, proba, **narrowest),
        "AURC": aurc_loss(y_test, proba),
    }
    for name, proba in maps.items()
}
print("Cross-entropy on the test images, seed 0")
print(pd.DataFrame(table).T.to_string(float_format="{:.3f}".format), end="\n\n")

# %%
# Abstain
# -------
# The error rate among the predictions must be at most half of the error rate of all
# images. The bound holds with probability 95 % over the draw of the held-out images,
# for the networks of the folds. The final network is trained on more images, so its
# error rate is usually below the bound.

from sklearn_calib.estimators import SelectiveClassifier

name = "regularized_aurc, negative_entropy"
error = 1 - mixed["accuracy"][best[name]]
inner = clone(network).set_params(**chosen[name])
model = SelectiveClassifier(inner, max_risk=error / 2, abstain_label=-1)
model.fit(X_train, y_train)
print("First predictions (-1 is an abstention):", model.predict(X_test[:12]))
print(f"Coverage on the test images: {model.coverage_score(X_test):.2f}")
risk = 1 - model.score(X_test, y_test)
print(f"Error rate of the predictions: {risk:.3f}, bound: {error / 2:.3f}")
print(f"\nRisk-coverage curves and search results are in {OUTPUT}/")
