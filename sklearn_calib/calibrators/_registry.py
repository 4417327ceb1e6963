"""Registry of the calibrators by name; each calibrator is one row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sklearn_calib._core.registry import Registry

if TYPE_CHECKING:
    from sklearn_calib.calibrators._base import Calibrator

CALIBRATORS = Registry(
    "calibrator",
    "sklearn_calib.calibrators",
    {
        "auto": "_auto:AutoCalibrator",
        "bbq": "_bbq:BBQ",
        "beta": "_beta:BetaCalibration",
        "class_temperature": "_class_temperature:ClassTemperatureScaling",
        "dirichlet": "_dirichlet:DirichletCalibrator",
        "enir": "_enir:ENIR",
        "ensemble_temperature": "_ensemble_temperature:EnsembleTemperatureScaling",
        "focal_posterior": "_focal_temperature:FocalPosterior",
        "focal_temperature": "_focal_temperature:FocalTemperatureScaling",
        "histogram": "_histogram:HistogramBinning",
        "isotonic": "_isotonic:IsotonicCalibration",
        "joint_beta": "_joint_beta:JointBetaCalibration",
        "joint_log_odds_spline": (
            "_joint_log_odds_spline:JointLogOddsSplineCalibration"
        ),
        "joint_isotonic": "_isotonic:JointIsotonicCalibration",
        "log_odds_spline": "_log_odds_spline:LogOddsSplineCalibration",
        "matrix": "_matrix:MatrixScaling",
        "meta_cal": "_metacal:MetaCal",
        "platt": "_platt:PlattScaling",
        "quadratic_logistic": "_quadratic_logistic:QuadraticLogisticCalibration",
        "scaling_binning": "_histogram:ScalingBinning",
        "spline": "_spline:SplineCalibration",
        "structured_matrix": "_structured:StructuredMatrixScaling",
        "structured_vector": "_structured:StructuredVectorScaling",
        "temperature": "_temperature:TemperatureScaling",
        "top_label": "_top_label:TopLabelCalibrator",
        "vector": "_vector:VectorScaling",
        "venn_abers": "_venn_abers:VennAbers",
    },
)


def get_calibrator(name: str) -> type[Calibrator]:
    """Return the class of a calibrator by its name.

    Parameters
    ----------
    name : str
        One of :func:`get_calibrator_names`.

    Returns
    -------
    calibrator : type
        Subclass of :class:`Calibrator`.

    Raises
    ------
    ValueError
        If the name is unknown; the message suggests the closest name.

    Examples
    --------
    >>> from sklearn_calib.calibrators import get_calibrator
    >>> get_calibrator("temperature")()
    TemperatureScaling()
    """
    return CALIBRATORS.get(name)


def get_calibrator_names() -> list[str]:
    """Return the names of all calibrators.

    Returns
    -------
    names : list of str
        Names in alphabetical order.

    Examples
    --------
    >>> from sklearn_calib.calibrators import get_calibrator_names
    >>> "temperature" in get_calibrator_names()
    True
    """
    return CALIBRATORS.names()
