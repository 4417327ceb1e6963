"""
=========================================================
Reliability diagrams: what bins, curves and bands can say
=========================================================

Two classifiers of the handwritten digits are wrong about as often, but one is too sure
and the other not sure enough. Five figures show it, and how much of it may be chance.

Takes about five seconds on one core. Writes its figures into the folder
`reliability_output`.
"""

# Authors: The sklearn_calib developers
# SPDX-License-Identifier: BSD-3-Clause

# %%
# Two classifiers
# ---------------
# Noise makes the digits hard. Naive Bayes counts the same evidence again in every
# pixel, and becomes too sure; a strongly regularized logistic regression is not sure
# enough.

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
# The dark lines are exact intervals of the accuracy of each bin (Clopper and Pearson):
# where one misses the diagonal, the gap is hardly chance. The histogram shows which
# bins hold samples at all.

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
# What chance would do
# --------------------
# The consistency band of Bröcker and Smith turns the question round: where would the
# accuracies of a calibrated classifier be? It stands around the diagonal.

display = ReliabilityDisplay.from_estimator(
    logistic, X_test, y_test, interval="consistency", random_state=0
)
display.figure_.savefig(OUTPUT / "consistency.png", dpi=100)

# %%
# Without bins
# ------------
# The smooth diagram has a bandwidth that follows from the data, and is thick where the
# samples are. CORP fits the best increasing curve, and parts the Brier score of the
# confidence: naive Bayes loses more to miscalibration (MCB 0.020 against 0.008), and
# tells right from wrong answers less well (DSC 0.040 against 0.052).

figure, axes = plt.subplots(1, 2, figsize=(9.6, 5.4), layout="constrained")
for ax, kind in zip(
    axes, [SmoothReliabilityDisplay, CorpReliabilityDisplay], strict=True
):
    for model in bayes, logistic:
        kind.from_estimator(model, X_test, y_test, ax=ax, random_state=0)
figure.savefig(OUTPUT / "curves.png", dpi=100)

# %%
# Class by class
# --------------
# The predicted class is not all that a classifier says. Each panel is about the
# probability of one digit, for all samples.

display = ClasswiseReliabilityDisplay.from_estimator(bayes, X_test, y_test, n_bins=10)
display.figure_.savefig(OUTPUT / "classes.png", dpi=100)

# %%
# One class of two
# ----------------
# For two classes the probability of the positive one is shown, which `pos_label` names.

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
print(f"The figures are in {OUTPUT}/")
