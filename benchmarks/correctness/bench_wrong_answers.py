"""Problems with known answers, solved with this package and with others.

    python benchmarks/correctness/bench_wrong_answers.py

Prints for each problem the right answer with the reason, and the answer of each
package. Packages that are not installed are listed as missing. The data are chosen so
that the answer follows from the definition.
"""

import sys
import warnings
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss

from sklearn_calib import metrics
from sklearn_calib.calibrators import (
    HistogramBinning,
    IsotonicCalibration,
    TemperatureScaling,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
from helpers.peers import IdentityClassifier

PACKAGES = [
    "scikit-learn",
    "netcal",
    "torchmetrics",
    "relplot",
    "probmetrics",
    "torch-uncertainty",
    "uncertainty-calibration",
]


def attempt(answer):
    """Return the answer of a package, or its error as text."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return f"{float(answer()):.4f}"
    except ModuleNotFoundError as error:
        return f"missing ({error.name})"
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:60]}"


def ask(question, right, reason, **answers):
    """Print a problem with the answers of all packages."""
    print(f"\n{question}\n  right: {right}, because {reason}")
    for package, answer in answers.items():
        print(f"  {package.replace('_', '-'):28}{attempt(answer)}")


def two_columns(positive):
    return np.column_stack([1 - positive, positive])


def torchmetrics_ece(proba, y, **options):
    torch = import_module("torch")
    classification = import_module("torchmetrics.classification")
    task = "Multiclass" if proba.ndim == 2 else "Binary"
    size = {"num_classes": proba.shape[1]} if proba.ndim == 2 else {}
    metric = getattr(classification, f"{task}CalibrationError")(**size, **options)
    return metric(torch.as_tensor(proba), torch.as_tensor(y))


def torch_uncertainty_measure(name, proba, y, **options):
    metric = getattr(import_module("torch_uncertainty.metrics"), name)(**options)
    metric.update(as_tensor(proba).float(), as_tensor(y))
    return metric.compute()


def netcal_ece(proba, y, n_bins=15):
    return import_module("netcal.metrics").ECE(n_bins).measure(proba, y)


def saturated():
    """Half of the samples at 1 with accuracy 0.8, half at 0.5 with accuracy 0.5.

    The gaps are 0.2 and 0, at confidences too far apart for smoothing to mix them.
    """
    confidence = np.repeat([1.0, 0.5], 1000)
    correct = np.concatenate([np.arange(1000) % 5 > 0, np.arange(1000) % 2 > 0])
    return confidence, correct.astype(np.int64)


def ask_of_boundary():
    confidence, correct = saturated()
    ask(
        "smooth ECE, half at 1 with accuracy 0.8, half at 0.5 with accuracy 0.5",
        "0.1000",
        "it is 0.5 * 0.2 + 0.5 * 0",
        relplot=lambda: import_module("relplot").smECE(confidence, correct),
        probmetrics=lambda: probmetrics_smece(confidence, correct),
        torch_uncertainty=lambda: torch_uncertainty_measure(
            "SmoothCalibrationError", confidence, correct
        ),
        torch_uncertainty_reflected=lambda: torch_uncertainty_measure(
            "SmoothCalibrationError", confidence, correct, kernel_type="reflected"
        ),
        sklearn_calib=lambda: metrics.smooth_expected_calibration_error(
            correct, confidence
        ),
    )
    values = np.array([0.95, 0.95, 1.0, 1.0])
    y = np.array([1, 1, 1, 0])
    ask(
        "ECE with ten bins, two correct at 0.95, one correct and one wrong at 1",
        "0.2250",
        "all four are in the bin from 0.9 to 1: |0.975 - 0.75|",
        torchmetrics=lambda: torchmetrics_ece(values, y, n_bins=10),
        netcal=lambda: netcal_ece(values, y, 10),
        torch_uncertainty=lambda: torch_uncertainty_measure(
            "CalibrationError", values, y, task="binary", num_bins=10
        ),
        sklearn_calib=lambda: metrics.expected_calibration_error(y, values, n_bins=10),
    )
    proba, y = two_columns(np.array([0.2, 0.3, 0.4])), np.array([0, 0, 1])
    ask(
        "AURC of three predictions, the least confident one wrong",
        "0.1111",
        "it is the mean of the risks 0, 0 and 1 / 3 at 1, 2 and 3 predictions",
        torch_uncertainty=lambda: torch_uncertainty_measure("AURC", proba, y),
        sklearn_calib=lambda: metrics.aurc_loss(y, proba),
    )


def probmetrics_smece(confidence, correct):
    module = import_module("probmetrics.metrics")
    measured = module.Metrics.from_names(["smece"]).compute_all_from_labels_probs(
        *(as_tensor(part) for part in (correct, two_columns(confidence)))
    )
    return measured["smece"]


def as_tensor(values):
    return import_module("torch").as_tensor(values)


def ask_of_bad_input():
    proba = np.array([[0.9, 0.1], [np.nan, np.nan], [0.2, 0.8]])
    y = np.array([0, 1, 1])
    ask(
        "ECE with a row that is not a number",
        "an error",
        "the ECE is undefined",
        torchmetrics=lambda: torchmetrics_ece(proba, y, n_bins=10),
        netcal=lambda: netcal_ece(proba, y),
        sklearn_calib=lambda: metrics.expected_calibration_error(y, proba),
    )
    logits = np.array([[0.9, 0.1], [0.4, 0.2], [0.3, 0.8], [0.6, 0.5]])
    ask(
        "ECE of logits that happen to lie between 0 and 1",
        "an error, or the ECE of their softmax",
        "rows that do not sum to one are not probabilities",
        torchmetrics=lambda: torchmetrics_ece(logits, np.array([0, 0, 1, 1])),
        netcal=lambda: netcal_ece(logits, np.array([0, 0, 1, 1])),
        sklearn_calib=lambda: metrics.expected_calibration_error([0, 0, 1, 1], logits),
    )


def ask_of_debiased():
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((1000, 10))
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    ask(
        "debiased ECE of calibrated predictions without confidences below 0.1",
        "about 0",
        "empty bins do not count",
        uncertainty_calibration=lambda: import_module("calibration").get_ece(
            proba, y, debias=True
        ),
        sklearn_calib=lambda: metrics.expected_calibration_error(
            y, proba, reduce_bias=True
        ),
    )


def overconfident(n_samples=4000, n_classes=5, slope=50.0):
    """Return probabilities of logits that are too large by the factor `slope`."""
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((n_samples, n_classes))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    scaled = slope * logits
    proba = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    proba /= proba.sum(axis=1, keepdims=True)
    return proba, y


def by_sklearn(proba, y, method):
    frozen = FrozenEstimator(IdentityClassifier(proba.shape[1]))
    return CalibratedClassifierCV(frozen, method=method).fit(proba, y)


def ask_of_calibrators():
    for slope in (5.0, 50.0):
        ask_of_temperature(*overconfident(slope=slope), slope)
    proba, y = overconfident(slope=1.0)
    ask_of_new_samples(proba[:2000], y[:2000], proba[2000:], y[2000:])


def ask_of_temperature(proba, y, slope):
    def netcal():
        model = import_module("netcal.scaling").TemperatureScaling()
        return log_loss(y, model.fit(proba, y).transform(proba))

    def probmetrics():
        module = import_module("probmetrics.calibrators")
        model = module.get_calibrator("temp-scaling").fit(proba, y)
        return log_loss(y, model.predict_proba(proba))

    def torch_uncertainty():
        module = import_module("torch_uncertainty.post_processing")
        logits = as_tensor(np.log(np.maximum(proba, np.finfo(float).tiny))).float()
        model = module.TemperatureScaler()
        model.fit([(logits, as_tensor(y))], progress=False)
        return log_loss(y, model(logits).softmax(dim=1).detach().numpy())

    ask(
        f"log loss after temperature scaling, of logits {slope:g} times too large",
        f"{log_loss(y, overconfident(slope=1.0)[0]):.4f} or less",
        f"division by {slope:g} gives this value",
        scikit_learn=lambda: log_loss(
            y, by_sklearn(proba, y, "temperature").predict_proba(proba)
        ),
        netcal=netcal,
        probmetrics=probmetrics,
        torch_uncertainty=torch_uncertainty,
        sklearn_calib=lambda: log_loss(
            y, TemperatureScaling().fit(proba, y).predict_proba(proba)
        ),
    )


def infinite_loss(proba, y):
    """Return the mean log loss without clipping."""
    return -np.log(proba[np.arange(len(y)), y] / proba.sum(axis=1)).mean()


def ask_of_new_samples(proba, y, new_proba, new_y):
    def netcal(name, **options):
        model = getattr(import_module("netcal.binning"), name)(**options)
        return infinite_loss(model.fit(proba, y).transform(new_proba), new_y)

    def ours(model):
        return infinite_loss(model.fit(proba, y).predict_proba(new_proba), new_y)

    ask(
        "log loss of new samples after isotonic regression and histogram binning",
        "finite",
        "an event that is absent from 2000 samples is not impossible",
        scikit_learn_isotonic=lambda: infinite_loss(
            by_sklearn(proba, y, "isotonic").predict_proba(new_proba), new_y
        ),
        netcal_isotonic=lambda: netcal("IsotonicRegression"),
        netcal_histogram=lambda: netcal("HistogramBinning", bins=15),
        sklearn_calib_isotonic=lambda: ours(IsotonicCalibration()),
        sklearn_calib_histogram=lambda: ours(HistogramBinning()),
    )


def main():
    for package in PACKAGES:
        try:
            print(f"# {package} {version(package)}")
        except PackageNotFoundError:
            print(f"# {package} is missing")
    ask_of_boundary()
    ask_of_debiased()
    ask_of_bad_input()
    ask_of_calibrators()


if __name__ == "__main__":
    main()
