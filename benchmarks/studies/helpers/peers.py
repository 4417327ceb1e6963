"""Calibrators of other packages, as functions."""

from functools import partial
from importlib import import_module
from inspect import signature

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator


class IdentityClassifier(ClassifierMixin, BaseEstimator):
    """Fitted classifier that returns its features as probabilities."""

    def __init__(self, n_classes):
        self.n_classes = n_classes
        self.classes_ = np.arange(n_classes)

    def fit(self, X, y):  # noqa: ARG002 - scikit-learn asks for the method
        return self

    def predict_proba(self, X):
        return X

    def predict(self, X):
        return X.argmax(axis=1)


class IdentityLogits(IdentityClassifier):
    """The same for logits, which scikit-learn prefers to probabilities."""

    decision_function_is_logits = True

    def decision_function(self, X):
        return X[:, 1] - X[:, 0] if self.n_classes == 2 else X


def run_sklearn(method):
    def run(X, y, X_test):
        frozen = FrozenEstimator(IdentityLogits(X.shape[1]))
        model = CalibratedClassifierCV(frozen, method=method).fit(np.log(X), y)
        return model.predict_proba(np.log(X_test))

    return run


def run_netcal(module, name, *params):
    model = getattr(import_module(f"netcal.{module}"), name)(*params)

    def run(X, y, X_test):
        if X.shape[1] > 2:
            return model.fit(X, y).transform(X_test)
        positive = model.fit(X[:, 1], y).transform(X_test[:, 1]).ravel()
        return np.column_stack([1 - positive, positive])

    return run


def run_probmetrics(name):
    module = import_module("probmetrics.calibrators")
    params = {f"{name}_print_init_info": False} if name in ("svs", "sms") else {}
    model = (
        getattr(module, name)(**params)
        if hasattr(module, name)
        else module.get_calibrator(name, **params)
    )

    def run(X, y, X_test):
        wrapped = model
        if name in ("beta", "quadratic-scaling", "CDFSplineCalibrator"):
            wrapped = module.MulticlassOneVsRestCalibrator(model)
        return wrapped.fit(X, y.astype(np.int64)).predict_proba(X_test)

    return run


def run_uncertainty_calibration(name, n_bins):
    def run(X, y, X_test):
        kind = getattr(import_module("calibration"), name)
        model = kind(len(y), num_bins=n_bins)
        model.train_calibration(X, y)
        return np.asarray(model.calibrate(X_test))

    return run


def run_torch_uncertainty(name):
    """Calibrators of torch-uncertainty, on log probabilities as logits."""
    kind = getattr(import_module("torch_uncertainty.post_processing"), name)
    as_tensor = import_module("torch").as_tensor

    def run(X, y, X_test):
        has_size = "num_classes" in signature(kind).parameters
        model = kind(X.shape[1]) if has_size else kind()
        model.fit([(as_tensor(np.log(X)).float(), as_tensor(y))], progress=False)
        return model(as_tensor(np.log(X_test)).float()).softmax(dim=1).detach()

    return run


def run_betacal(parameters):
    """Calibrators of betacal, for two classes only."""
    model = import_module("betacal").BetaCalibration(parameters)

    def run(X, y, X_test):
        positive = model.fit(X[:, 1:2], y).predict(X_test[:, 1:2])
        return np.column_stack([1 - positive, positive])

    return run


def run_splinecalib():
    model = import_module("splinecalib").SplineCalib()

    def run(X, y, X_test):
        model.fit(X, y)
        return model.calibrate(X_test)

    return run


# By package: the function that makes a run, and its arguments by our method name.
PACKAGES = {
    "scikit-learn": (
        run_sklearn,
        {
            "temperature": ["temperature"],
            # Of the logits, where ours is of the log-odds: another map above two
            # classes.
            "platt": ["sigmoid"],
            "isotonic": ["isotonic"],
        },
    ),
    "netcal": (
        run_netcal,
        {
            "temperature": ["scaling", "TemperatureScaling"],
            "dirichlet, diagonal": ["scaling", "LogisticCalibration"],
            "joint_beta": ["scaling", "BetaCalibration"],
            "histogram, uniform": ["binning", "HistogramBinning", 15],
            "isotonic": ["binning", "IsotonicRegression"],
            "bbq": ["binning", "BBQ"],
            "enir": ["binning", "ENIR"],
        },
    ),
    "probmetrics": (
        run_probmetrics,
        {
            "temperature": ["temp-scaling"],
            "isotonic": ["isotonic"],
            "beta": ["beta"],
            "venn_abers": ["ivap-ovr"],
            "structured_vector": ["svs"],
            "structured_matrix": ["sms"],
            "quadratic_logistic": ["quadratic-scaling"],
            "dirichlet, diagonal": ["VectorScalingCalibrator"],
            "dirichlet": ["MatrixScalingCalibrator"],
            "ensemble_temperature, Brier": ["ETSCalibrator"],
            "spline": ["CDFSplineCalibrator"],
        },
    ),
    "betacal": (run_betacal, {"beta": ["abm"]}),
    "splinecalib": (run_splinecalib, {"log_odds_spline": []}),
    "torch-uncertainty": (
        run_torch_uncertainty,
        {
            "temperature": ["TemperatureScaler"],
            "vector": ["VectorScaler"],
            "matrix": ["MatrixScaler"],
            "dirichlet": ["DirichletScaler"],
            "histogram, uniform": ["HistogramBinningScaler"],
            "isotonic": ["IsotonicRegressionScaler"],
            "bbq": ["BBQScaler"],
        },
    ),
    "uncertainty-calibration": (
        run_uncertainty_calibration,
        {
            "histogram": ["HistogramMarginalCalibrator", 15],
            "scaling_binning": ["PlattBinnerMarginalCalibrator", 10],
        },
    ),
}
PEERS = [
    (method, package, partial(make, *arguments))
    for package, (make, methods) in PACKAGES.items()
    for method, arguments in methods.items()
]
