"""The methods of CalArena, from probmetrics with the parameters that CalArena sets.

`BINARY` and `MULTICLASS` are its methods for two and for more classes; `MANY` are those
that it runs on ImageNet, and MS and SMS. The uncalibrated predictions are a method, too
(`BASE`). Needs `probmetrics[extra]`, and dirichletcal for Dirichlet calibration.
"""

from functools import partial
from importlib import import_module

BASE = "Base-model"


def make(name, *, one_vs_rest=False, **params):
    """Return an unfitted calibrator of probmetrics."""
    module = import_module("probmetrics.calibrators")
    calibrator = getattr(module, name)(**params)
    if one_vs_rest:
        return module.MulticlassOneVsRestCalibrator(calibrator)
    return calibrator


def histogram(strategy, **params):
    return partial(
        make, "BinaryHistogramBinningCalibrator", strategy=strategy, **params
    )


def logistic(kind):
    return partial(make, "BinaryLogisticCalibrator", type=kind)


def of_sklearn(method):
    return partial(make, "SklearnCalibrator", method=method, cv="prefit")


BOTH = {
    "BBQ": partial(make, "NetcalBBQCalibrator"),
    "Isotonic": of_sklearn("isotonic"),
    "TS": partial(make, "TemperatureScalingCalibrator"),
    "ETS": partial(make, "ETSCalibrator"),
    "Spline": partial(make, "MLISplineCalibrator"),
    "Kernel": partial(make, "KernelCalibrator"),
    "XGBoost": partial(make, "XGBoostCalibrator"),
    "LightGBM": partial(make, "LightGBMCalibrator"),
    "CatBoost": partial(make, "CatBoostCalibrator"),
}
BINARY = {
    "Hist-uniform": histogram("uniform"),
    "Hist-quantile": histogram("quantile"),
    "Scaling-Binning": partial(make, "BinaryPlattBinnerCalibrator"),
    "CIR": partial(make, "CenteredIsotonicRegressionCalibrator"),
    "Venn-Abers": partial(make, "BinaryVennAbersCalibrator"),
    "Platt-probs": of_sklearn("sigmoid"),
    "Platt-logits": logistic("affine"),
    "Quadratic": logistic("quadratic"),
    "Beta": partial(make, "BetacalCalibrator"),
    "CDF-Spline": partial(make, "CDFSplineCalibrator"),
    **BOTH,
}
MULTICLASS = {
    "Hist-uniform": histogram("uniform", one_vs_rest=True),
    "Hist-quantile": histogram("quantile", one_vs_rest=True),
    "CIR": partial(make, "CenteredIsotonicRegressionCalibrator", one_vs_rest=True),
    "Venn-Abers": partial(make, "VennAbersCalibrator"),
    "VS": partial(make, "VectorScalingCalibrator"),
    "SVS": partial(make, "SVSCalibrator"),
    "MS": partial(make, "MatrixScalingCalibrator"),
    "SMS": partial(make, "SMSCalibrator"),
    "Dirichlet": partial(
        make, "DirichletCalibrator", n_cv=0, reg_lambda=1e-3, reg_mu=1e-3
    ),
    **BOTH,
}
IMAGENET = [
    "Hist-uniform",
    "Hist-quantile",
    "Isotonic",
    "CIR",
    "TS",
    "ETS",
    "VS",
    "SVS",
]
MANY = {name: MULTICLASS[name] for name in [*IMAGENET, "MS", "SMS"]}
