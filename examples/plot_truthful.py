"""
============================================================
Truthful calibration errors: when a wrong model looks better
============================================================

A calibration error is truthful if no predictions have a lower expected error than the
true probabilities. Which error can compare models? We know the true probabilities of
simulated patients and compare them with three other predictions. The expected
calibration error (ECE) prefers wrong predictions as long as there are few patients; the
averaged two-bin error (ATB, Hartline, Hu and Wu 2026) does not.

Takes about half a minute on one core. Prints a table and writes a figure to the folder
`truthful_output`.
"""

# Authors: The sklearn_calib developers
# SPDX-License-Identifier: BSD-3-Clause

# %%
# Four predictions
# ----------------
# The risk of a patient is drawn from a beta distribution with mean 0.3. The first
# prediction is the true risk. The others are wrong: the risk rounded to thirds, a risk
# that is shrunk to the mean by half, and the same risk for all patients.

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from sklearn_calib.metrics import (
    averaged_two_bin_error,
    expected_calibration_error,
    smooth_expected_calibration_error,
)

OUTPUT = Path("truthful_output")
OUTPUT.mkdir(exist_ok=True)
MEAN = 0.3
PREDICTIONS = {
    "true risk": lambda risk: risk,
    "rounded to thirds": lambda risk: np.round(risk * 3) / 3,
    "shrunk by half": lambda risk: (risk + MEAN) / 2,
    "same for all": lambda risk: np.full_like(risk, MEAN),
}
METRICS = {
    "ECE": expected_calibration_error,
    "adaptive ECE": partial(expected_calibration_error, strategy="quantile"),
    "smooth ECE": smooth_expected_calibration_error,
    "ATB": averaged_two_bin_error,
}
SIZES = [20, 100, 500, 2500]

# %%
# Mean errors
# -----------
# For each number of patients, we average the errors over 300 draws of patients and
# outcomes. The table shows the mean error divided by that of the true risks: below 1,
# the metric prefers the wrong predictions.

rng = np.random.default_rng(0)
rows = []
for n_samples in SIZES:
    sums = np.zeros((len(METRICS), len(PREDICTIONS)))
    for _ in range(300):
        risk = rng.beta(3, 7, size=n_samples)
        y = (rng.random(n_samples) < risk).astype(int)
        probas = [predict(risk) for predict in PREDICTIONS.values()]
        sums += [
            [metric(y, proba, labels=[0, 1]) for proba in probas]
            for metric in METRICS.values()
        ]
    for name, (truth, *others) in zip(METRICS, sums, strict=True):
        ratios = dict(zip(list(PREDICTIONS)[1:], np.divide(others, truth), strict=True))
        rows.append({"metric": name, "patients": n_samples, **ratios})
table = pd.DataFrame(rows).set_index(["metric", "patients"])
print("Mean error divided by that of the true risks")
print(table.to_string(float_format="{:.2f}".format))

# %%
# Decide
# ------
# The ECE prefers the rounded and the shrunk risks to the true ones for 20 and 100
# patients. The smooth ECE prefers both, slightly, for 20, and the shrunk ones for 100.
# The adaptive ECE prefers the rounded risks even for 500 patients, as they have only
# few distinct values.
#
# All three prefer the same risk for all patients, however many there are. It is nearly
# calibrated, but useless, as no decision can depend on it.
#
# No ratio of the ATB is below 1, whatever the number of patients. It does not replace
# the log loss or the Brier score, which also measure how informative predictions are:
# the same risk for all has a ratio of only 1.1.
#
# So we compare the calibration of models by the ATB, and choose a model by its log
# loss.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(
    1, len(METRICS), figsize=(12, 3.6), sharey=True, layout="constrained"
)
for axis, name in zip(axes, METRICS, strict=True):
    table.loc[name].plot(ax=axis, marker="o", logx=True, logy=True, legend=False)
    axis.axhline(1, color="0.3", linewidth=1)
    axis.set(title=name, xlabel="Patients", xticks=SIZES, xticklabels=SIZES)
    axis.minorticks_off()
ratios = [0.25, 0.5, 1, 2, 4]
axes[0].set(ylabel="Mean error / that of the true risks", yticks=ratios)
axes[0].set_yticklabels(ratios)
axes[-1].legend(loc="upper left", fontsize="small")
figure.savefig(OUTPUT / "truthful.png", dpi=100)
