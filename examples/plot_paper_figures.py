"""
========================================
Figures of the papers, with your network
========================================

Which loss do we train a small network for noisy digits with, and for how long? We
answer with the figures of the papers on calibration losses. The titles name the paper
and the figure, and the text says how each figure contributes to the decision.

Takes about half a minute on two cores. Writes the figures to the folder
`paper_figures`.
"""

# Authors: The sklearn_calib developers
# SPDX-License-Identifier: BSD-3-Clause

# %%
# Which loss limits the confidence?
# ---------------------------------
# A loss with a gradient near 0 at high probabilities stops raising them: choose it if
# your network is overconfident, and one with a large gradient there if it is
# underconfident. CalFocal is drawn for an accuracy of 0.8 in all bins: its loss is
# small as soon as p exceeds it. For AURC, the points of the curve are ranked by p.

from pathlib import Path

import matplotlib.pyplot as plt

from sklearn_calib.displays import LossCurveDisplay
from sklearn_calib.losses import AURCLoss, CalFocalLoss

OUTPUT = Path("paper_figures")
OUTPUT.mkdir(exist_ok=True)
calfocal = CalFocalLoss(n_bins=1, lambd=10.0, per_sample=True)
calfocal.update([0, 0, 0, 0, 1], [[0.8, 0.2]] * 5)  # an accuracy of 0.8
curves = {
    "cross-entropy": {"loss": "cross_entropy"},
    "focal, gamma 3": {"loss": "focal", "gamma": 3.0},
    "inverse focal, gamma 2": {"loss": "inverse_focal", "gamma": 2.0},
    "CalFocal, lambda 10": {"loss": calfocal},
    "AURC": {"loss": AURCLoss(confidence=lambda logits: logits[:, 0])},
}
figure, axes = plt.subplots(1, 3, figsize=(15, 4.5), layout="constrained")
titles = {
    "loss": "Loss (Ghosh et al. 2022, figure 3a)",
    "gradient": "Gradient (Zhou et al. 2025, figure 3)",
    "weight": "Weight (Zhou et al. 2025, figure 1)",
}
for ax, (quantity, title) in zip(axes, titles.items(), strict=True):
    for name, params in curves.items():
        LossCurveDisplay.from_loss(**params, quantity=quantity, name=name, ax=ax)
    ax.set_title(title)
figure.savefig(OUTPUT / "losses.png", dpi=80)

# %%
# Is a network underconfident by design?
# --------------------------------------
# If phi falls below its value for the other classes, the minimiser of the loss is
# underconfident. With the focal loss and gamma 1, all confidences above 0.37 are too
# low: map them with `FocalLoss.posterior`, or calibrate the network. The paper finds a
# smaller region for the dual focal loss, but its analysis leaves out a gradient, see
# :func:`~sklearn_calib.losses.confidence_regions`.

figure, ax = plt.subplots(figsize=(6.5, 5), layout="constrained")
for name, params in {
    "focal": {"loss": "focal"},
    "dual focal, q = 0.3": {"loss": "dual_focal", "competitor": 0.3},
}.items():
    LossCurveDisplay.from_loss(**params, gamma=1.0, quantity="phi", name=name, ax=ax)
figure.suptitle("Over- and underconfident regions (Tao et al. 2023, figure 1)")
figure.savefig(OUTPUT / "phi.png", dpi=80)

# %%
# Three losses, three seeds
# -------------------------
# For the other figures we train a network with each loss and seed. The callbacks record
# the ECE of the validation set after each epoch, and the calibration gap of three bins.

import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from skorch.callbacks import EpochScoring

from sklearn_calib import NeuralClassifier
from sklearn_calib.callbacks import RecordBins, valid_ece

X, y = load_digits(return_X_y=True)
X = X / 16 + np.random.default_rng(0).normal(scale=0.5, size=X.shape)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.5, stratify=y, random_state=0
)
torch.set_num_threads(1)  # two networks are trained at a time
EPOCHS, SEEDS = 30, range(3)
network = NeuralClassifier(
    lr=0.003,
    max_epochs=EPOCHS,
    validation_fraction=0.3,
    callbacks=[EpochScoring(valid_ece, name="valid_ece"), RecordBins(n_bins=3)],
)
losses = {
    "cross-entropy": {"loss": "cross_entropy"},
    "FLSD-53": {"loss": "sample_dependent_focal"},
    "AdaFocal": {"loss": "adafocal", "loss__n_bins": 3},
}
trained = Parallel(n_jobs=2)(
    delayed(clone(network).set_params(**params, random_state=seed).fit)(
        X_train, y_train
    )
    for params in losses.values()
    for seed in SEEDS
)
models = {name: trained[3 * index : 3 * index + 3] for index, name in enumerate(losses)}

# %%
# In which bins is the network overconfident?
# -------------------------------------------
# A gap above 0 in all bins is corrected by a larger gamma or a temperature; gaps of
# different signs need a gamma for each bin, as in AdaFocal, or a calibrator with more
# parameters. Here all final gaps are above 0, and that of cross-entropy is
# largest in the middle bin.

from sklearn_calib.displays import GammaDynamicsDisplay

axes = None
colors = dict(zip(models, ["C0", "C1", "C2"], strict=True))
for name in reversed(models):  # AdaFocal first, whose figure has panels for gamma
    display = GammaDynamicsDisplay.from_estimator(
        models[name][0], name=name, color=colors[name], ax=axes, bins="all"
    )
    axes = display.axes_
display.figure_.suptitle(
    "Calibration gap of bins (Ghosh et al. 2022, figures 1b and 5)"
)
display.figure_.savefig(OUTPUT / "gaps.png", dpi=80)

# %%
# How long to train?
# ------------------
# Lines are means of the seeds, and bands their standard deviations. If the error is
# flat while the ECE rises, more epochs only make the network overconfident: stop
# earlier, or calibrate. Here this is so for cross-entropy, from the tenth epoch on.

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for name, seeds in models.items():
    curves = {
        "Error": 1 - np.array([model.history_[:, "valid_acc"] for model in seeds]),
        "ECE": np.array([model.history_[:, "valid_ece"] for model in seeds]),
    }
    for ax, (label, values) in zip(axes, curves.items(), strict=True):
        mean, std, epochs = values.mean(0), values.std(0), range(1, EPOCHS + 1)
        ax.plot(epochs, mean, label=name)
        ax.fill_between(epochs, mean - std, mean + std, alpha=0.2)
        ax.set(xlabel="Epoch", ylabel=f"{label} on validation data")
axes[0].legend()
figure.suptitle("Error and ECE over epochs (Ghosh et al. 2022, figure 4)")
figure.savefig(OUTPUT / "epochs.png", dpi=80)

# %%
# Which loss separates the classes best, and at which calibration error?
# ----------------------------------------------------------------------
# `compare` takes the seeds of a loss as one row, and returns their mean and standard
# deviation. A loss above and left of another one is better. If the error bars overlap
# in one direction, as those of the AUC do here, the other direction decides. An ECE can
# be lowered afterwards, an AUC hardly.

from sklearn_calib.evaluation import compare

table = compare(
    models, X_test, y_test, metrics=["roc_auc_ovr", "neg_ece"], n_resamples=0
)
figure, ax = plt.subplots(figsize=(5.5, 4), layout="constrained")
for name in models:
    auc, ece = table.loc[name, "roc_auc_ovr"], table.loc[name, "ece"]
    ax.errorbar(
        ece["value"],
        auc["value"],
        xerr=ece["std"],
        yerr=auc["std"],
        fmt="o",
        capsize=3,
        label=name,
    )
ax.set(xlabel="ECE", ylabel="AUC, one-vs-rest")
ax.set_title("AUC against ECE (Hebbalaguppe et al. 2026, figure 3)", fontsize="medium")
ax.legend()
figure.savefig(OUTPUT / "auc_ece.png", dpi=80)

# %%
# Which gamma?
# ------------
# The ECE of the focal loss on the test parts of three folds, and its standard
# deviation. Take the smallest gamma above which the curve is flat, here about 4:
# larger ones slow down the training. With another loss, the parameter may be lambda.

from sklearn.model_selection import GridSearchCV, ValidationCurveDisplay

gammas = np.array([0.0, 2.0, 4.0, 6.0, 8.0])
results = (
    GridSearchCV(
        clone(network).set_params(loss="focal", callbacks=None, random_state=0),
        {"loss__gamma": gammas},
        scoring="neg_ece",
        refit=False,
        cv=3,
        n_jobs=2,
    )
    .fit(X_train, y_train)
    .cv_results_
)
curve = ValidationCurveDisplay(
    param_name="gamma",
    param_range=gammas,
    train_scores=None,
    test_scores=np.transpose([-results[f"split{k}_test_score"] for k in range(3)]),
    score_name="ECE",
).plot(score_type="test")
curve.ax_.set_title("ECE over gamma (Zhou et al. 2025, figures 5 and 7)")
curve.figure_.savefig(OUTPUT / "gamma.png", dpi=80)

# %%
# Does the confidence tell correct from incorrect predictions?
# ------------------------------------------------------------
# The first panels show the confidence of correct and incorrect predictions, the last
# one the negative entropies of all predictions. The less the histograms overlap, the
# more errors a threshold of the confidence rejects. If most entropies are near 0
# although many predictions are wrong, as with cross-entropy here, calibrate before you
# use the confidence.

from sklearn_calib.displays import ConfidenceHistogramDisplay

figure, axes = plt.subplots(1, 4, figsize=(18, 4.5), layout="constrained")
for ax, (name, seeds) in zip(axes[:3], models.items(), strict=True):
    proba = seeds[0].predict_proba(X_test)
    ConfidenceHistogramDisplay.from_predictions(y_test, proba, name=name, ax=ax)
    ConfidenceHistogramDisplay.from_predictions(
        y_test,
        proba,
        confidence="negative_entropy",
        split=False,
        name=name,
        ax=axes[3],
    )
title = "Confidences (Hebbalaguppe et al. 2026, figure 1)"
figure.suptitle(f"{title} and entropies (Liang et al. 2025, figure 2)")
figure.savefig(OUTPUT / "confidences.png", dpi=80)

# %%
# Decide
# ------
# After the tenth epoch, the error does not fall and the ECE of cross-entropy rises, and
# the losses have the same AUC. So we train this network with the focal loss and
# gamma 4, whose ECE in cross-validation is 0.08, or stop after ten epochs.

print(f"The figures are in {OUTPUT}/")
