"""The calibrators by name: adding one is a row here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sklearn_calib._core.registry import Registry

if TYPE_CHECKING:
    from sklearn_calib.calibrators._base import Calibrator

CALIBRATORS = Registry(
    "calibrator",
    "sklearn_calib.calibrators",
    {
        "bbq": "_bbq:BBQ",
        "beta": "_beta:BetaCalibration",
        "dirichlet": "_dirichlet:DirichletCalibrator",
        "enir": "_enir:ENIR",
        "ensemble_temperature": "_ensemble_temperature:EnsembleTemperatureScaling",
        "focal_posterior": "_focal_temperature:FocalPosterior",
        "focal_temperature": "_focal_temperature:FocalTemperatureScaling",
        "histogram": "_histogram:HistogramBinning",
        "isotonic": "_isotonic:IsotonicCalibration",
        "joint_beta": "_joint_beta:JointBetaCalibration",
        "joint_isotonic": "_isotonic:JointIsotonicCalibration",
        "matrix": "_matrix:MatrixScaling",
        "meta_cal": "_metacal:MetaCal",
        "platt": "_platt:PlattScaling",
        "quadratic_logistic": "_quadratic_logistic:QuadraticLogisticCalibration",
        "scaling_binning": "_histogram:ScalingBinning",
        "spline": "_spline:SplineCalibration",
        "structured_matrix": "_structured:StructuredMatrixScaling",
        "structured_vector": "_structured:StructuredVectorScaling",
        "temperature": "_temperature:TemperatureScaling",
        "vector": "_vector:VectorScaling",
        "venn_abers": "_venn_abers:VennAbers",
    },
)


def get_calibrator(name: str) -> type[Calibrator]:
    """Return the class of the calibrator that is registered under a name.

    Parameters
    ----------
    name : str
        One of :func:`get_calibrator_names`.

    Returns
    -------
    calibrator : type
        A subclass of :class:`Calibrator`.

    Raises
    ------
    ValueError
        If no calibrator has this name; the message suggests the closest.

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
        Sorted.

    Examples
    --------
    >>> from sklearn_calib.calibrators import get_calibrator_names
    >>> "temperature" in get_calibrator_names()
    True
    """
    return CALIBRATORS.names()
