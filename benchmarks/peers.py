"""The calibrators of other packages, each as a function to run."""

from importlib import import_module

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator


class SaysItsInput(ClassifierMixin, BaseEstimator):
    """A fitted classifier that costs nothing: its features are its logits."""

    decision_function_is_logits = True

    def __init__(self, n_classes):
        self.n_classes = n_classes
        self.classes_ = np.arange(n_classes)

    def fit(self, X, y):  # noqa: ARG002 - scikit-learn asks for the method
        return self

    def decision_function(self, X):
        return X[:, 1] - X[:, 0] if self.n_classes == 2 else X

    def predict(self, X):
        return X.argmax(axis=1)


def run_sklearn(method):
    def run(X, y, X_test):
        frozen = FrozenEstimator(SaysItsInput(X.shape[1]))
        model = CalibratedClassifierCV(frozen, method=method).fit(np.log(X), y)
        return model.predict_proba(np.log(X_test))

    return run


def run_netcal(module, name, **params):
    model = getattr(import_module(f"netcal.{module}"), name)(**params)

    def run(X, y, X_test):
        if X.shape[1] > 2:
            return model.fit(X, y).transform(X_test)
        positive = model.fit(X[:, 1], y).transform(X_test[:, 1]).ravel()
        return np.column_stack([1 - positive, positive])

    return run


def run_probmetrics(name, **params):
    module = import_module("probmetrics.calibrators")
    if name in ("svs", "sms"):
        params[f"{name}_print_init_info"] = False
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


def run_torch_uncertainty(name, *, with_size=True):
    """Of logarithms of the probabilities, which are logits."""
    kind = getattr(import_module("torch_uncertainty.post_processing"), name)
    as_tensor = import_module("torch").as_tensor

    def run(X, y, X_test):
        model = kind(X.shape[1]) if with_size else kind()
        model.fit([(as_tensor(np.log(X)).float(), as_tensor(y))], progress=False)
        return model(as_tensor(np.log(X_test)).float()).softmax(dim=1).detach()

    return run


def run_betacal(X, y, X_test):
    """Two classes only."""
    model = import_module("betacal").BetaCalibration("abm")
    positive = model.fit(X[:, 1:2], y).predict(X_test[:, 1:2])
    return np.column_stack([1 - positive, positive])


# By our name of the method, the package, and how to make a run.
PEERS = [
    ("temperature", "scikit-learn", lambda: run_sklearn("temperature")),
    # Of the logits, where ours is of the log-odds: another map above two classes.
    ("platt", "scikit-learn", lambda: run_sklearn("sigmoid")),
    ("isotonic", "scikit-learn", lambda: run_sklearn("isotonic")),
    ("temperature", "netcal", lambda: run_netcal("scaling", "TemperatureScaling")),
    (
        "dirichlet, diagonal",
        "netcal",
        lambda: run_netcal("scaling", "LogisticCalibration"),
    ),
    ("joint_beta", "netcal", lambda: run_netcal("scaling", "BetaCalibration")),
    (
        "histogram, uniform",
        "netcal",
        lambda: run_netcal("binning", "HistogramBinning", bins=15),
    ),
    ("isotonic", "netcal", lambda: run_netcal("binning", "IsotonicRegression")),
    ("bbq", "netcal", lambda: run_netcal("binning", "BBQ")),
    ("enir", "netcal", lambda: run_netcal("binning", "ENIR")),
    ("temperature", "probmetrics", lambda: run_probmetrics("temp-scaling")),
    ("isotonic", "probmetrics", lambda: run_probmetrics("isotonic")),
    ("beta", "probmetrics", lambda: run_probmetrics("beta")),
    ("venn_abers", "probmetrics", lambda: run_probmetrics("ivap-ovr")),
    ("structured_vector", "probmetrics", lambda: run_probmetrics("svs")),
    ("structured_matrix", "probmetrics", lambda: run_probmetrics("sms")),
    (
        "quadratic_logistic",
        "probmetrics",
        lambda: run_probmetrics("quadratic-scaling"),
    ),
    (
        "dirichlet, diagonal",
        "probmetrics",
        lambda: run_probmetrics("VectorScalingCalibrator"),
    ),
    ("dirichlet", "probmetrics", lambda: run_probmetrics("MatrixScalingCalibrator")),
    (
        "ensemble_temperature, Brier",
        "probmetrics",
        lambda: run_probmetrics("ETSCalibrator"),
    ),
    ("spline", "probmetrics", lambda: run_probmetrics("CDFSplineCalibrator")),
    ("beta", "betacal", lambda: run_betacal),
    (
        "temperature",
        "torch-uncertainty",
        lambda: run_torch_uncertainty("TemperatureScaler", with_size=False),
    ),
    ("vector", "torch-uncertainty", lambda: run_torch_uncertainty("VectorScaler")),
    ("matrix", "torch-uncertainty", lambda: run_torch_uncertainty("MatrixScaler")),
    (
        "dirichlet",
        "torch-uncertainty",
        lambda: run_torch_uncertainty("DirichletScaler"),
    ),
    (
        "histogram, uniform",
        "torch-uncertainty",
        lambda: run_torch_uncertainty("HistogramBinningScaler", with_size=False),
    ),
    (
        "isotonic",
        "torch-uncertainty",
        lambda: run_torch_uncertainty("IsotonicRegressionScaler", with_size=False),
    ),
    (
        "bbq",
        "torch-uncertainty",
        lambda: run_torch_uncertainty("BBQScaler", with_size=False),
    ),
    (
        "histogram",
        "uncertainty-calibration",
        lambda: run_uncertainty_calibration("HistogramMarginalCalibrator", 15),
    ),
    (
        "scaling_binning",
        "uncertainty-calibration",
        lambda: run_uncertainty_calibration("PlattBinnerMarginalCalibrator", 10),
    ),
]
