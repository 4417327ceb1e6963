"""
============================================
Reliability diagrams: bins, curves and bands
============================================

Two classifiers of handwritten digits have similar accuracies. Which of them must be
calibrated, before its probabilities are used? Five figures show in which direction they
err, and what is sampling noise. A sixth, for a paper, has twenty diagrams.

Takes about fifteen seconds on one core. Prints a part of a table and writes its figures
to the folder `reliability_output`.
"""

# Authors: The sklearn_calib developers
# SPDX-License-Identifier: BSD-3-Clause

# %%
# Two classifiers
# ---------------
# Noise makes the digits harder to classify. Naive Bayes treats correlated pixels as
# independent evidence and is overconfident. A strongly regularized logistic regression
# is underconfident.

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

OUTPUT = Path("reliability_output")
OUTPUT.mkdir(exist_ok=True)

X, y = load_digits(return_X_y=True)
X = X + np.random.default_rng(0).normal(scale=6, size=X.shape)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.5, stratify=y, random_state=0
)
bayes = GaussianNB().fit(X_train, y_train)
logistic = LogisticRegression(C=1e-3, max_iter=500).fit(X_train, y_train)

# %%
# Bins
# ----
# The dark lines are exact confidence intervals of the accuracy of each bin (Clopper and
# Pearson). A gap is significant where the line does not cross the diagonal. The
# histogram shows how many samples each bin contains.

import matplotlib.pyplot as plt

from sklearn_calib.displays import (
    ClasswiseReliabilityDisplay,
    CorpReliabilityDisplay,
    ReliabilityDisplay,
    SmoothReliabilityDisplay,
)

figure, axes = plt.subplots(1, 2, figsize=(9.6, 5.4), layout="constrained")
for ax, model in zip(axes, [bayes, logistic], strict=True):
    ReliabilityDisplay.from_estimator(model, X_test, y_test, ax=ax)
figure.savefig(OUTPUT / "bins.png", dpi=100)

# %%
# Consistency bands
# -----------------
# The consistency band of Bröcker and Smith shows where the accuracies of a calibrated
# classifier would lie, for each bin separately. It is drawn around the diagonal. With
# `interval="simultaneous"`, all bins would lie in it together.

display = ReliabilityDisplay.from_estimator(
    logistic, X_test, y_test, interval="consistency", random_state=0
)
display.figure_.savefig(OUTPUT / "consistency.png", dpi=100)

# %%
# Without bins
# ------------
# The smooth diagram chooses its bandwidth from the data; its line is thicker where
# there are more samples. CORP fits a non-decreasing curve by isotonic regression and
# decomposes the Brier score of the confidence. Naive Bayes has the larger
# miscalibration (MCB 0.020 against 0.008) and the smaller discrimination (DSC 0.040
# against 0.052).

figure, axes = plt.subplots(1, 2, figsize=(9.6, 5.4), layout="constrained")
for ax, kind in zip(
    axes, [SmoothReliabilityDisplay, CorpReliabilityDisplay], strict=True
):
    for model in bayes, logistic:
        kind.from_estimator(model, X_test, y_test, ax=ax, random_state=0)
figure.savefig(OUTPUT / "curves.png", dpi=100)

# %%
# The curve of naive Bayes is below the diagonal and its band (overconfident), that of
# the logistic regression above (underconfident). Neither is sampling noise, so we
# calibrate both classifiers.

# %%
# Class-wise diagrams
# -------------------
# The diagrams above consider the predicted class only. Here each panel shows the
# predicted probability of one digit, for all samples. The histograms have a logarithmic
# scale, because most probabilities are near 0. The method `frame` returns what is drawn
# as a table.

display = ClasswiseReliabilityDisplay.from_estimator(
    bayes, X_test, y_test, n_bins=10, histogram="log"
)
print(display.frame().head(8).round(3))
display.figure_.savefig(OUTPUT / "classes.png", dpi=100)

# %%
# Two classes
# -----------
# For two classes, the diagram shows the probability of the positive class, `pos_label`.

is_eight = np.where(y == 8, "eight", "other")
X_train, X_test, y_train, y_test = train_test_split(
    X, is_eight, test_size=0.5, stratify=is_eight, random_state=0
)
display = SmoothReliabilityDisplay.from_estimator(
    GaussianNB().fit(X_train, y_train),
    X_test,
    y_test,
    pos_label="eight",
    random_state=0,
)
display.figure_.savefig(OUTPUT / "positive.png", dpi=100)

# %%
# A figure for a paper
# --------------------
# Axes that share their scales have labels at the outer axes only. One legend replaces
# those of the diagrams. Fonts, lines and markers have the sizes that `rc_context` sets.
# With `pdf.fonttype` 42, the text of the PDF can be edited.

from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier

models = {
    "naive Bayes": GaussianNB(),
    "logistic": LogisticRegression(C=1e-3, max_iter=500),
    "LDA": LinearDiscriminantAnalysis(),
    "kNN": KNeighborsClassifier(n_neighbors=15),
}
sizes = {"font.size": 7, "axes.titlesize": 7, "lines.linewidth": 1}
with plt.rc_context({**sizes, "pdf.fonttype": 42}):
    figure, axes = plt.subplots(
        5, 4, figsize=(7, 9), sharex=True, sharey=True, layout="constrained"
    )
    for row, noise in zip(axes, [0, 3, 6, 9, 12], strict=True):
        shifted = X + np.random.default_rng(0).normal(scale=noise, size=X.shape)
        for ax, (name, model) in zip(row, models.items(), strict=True):
            model.fit(shifted[::2], y[::2])
            display = ReliabilityDisplay.from_estimator(
                model, shifted[1::2], y[1::2], ax=ax
            )
            ax.set_title(f"{name}, noise {noise}, ECE {display.ece:.2f}")
    handles = [
        *display.ax_.get_legend().legend_handles,
        *display.histogram_ax_.get_legend().legend_handles,
    ]
    labels = ["Accuracy", "95 % interval", "Gap", "Overall accuracy", "Mean confidence"]
    for ax in figure.axes:
        ax.get_legend().remove()
    figure.legend(handles, labels, loc="outside upper center", ncols=5)
    figure.savefig(OUTPUT / "grid.pdf")
print(f"The figures are in {OUTPUT}/")
