"""Registry of the calibrators by name; each calibrator is one row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sklearn_calib._lazy_names import Registry

if TYPE_CHECKING:
    from sklearn_calib.calibrators._base.calibrator import Calibrator

CALIBRATORS = Registry(
    "calibrator",
    "sklearn_calib.calibrators",
    {
        "auto": "_combined.auto:AutoCalibrator",
        "bbq": "_one_vs_rest.bbq:BBQ",
        "beta": "_one_vs_rest.beta:BetaCalibration",
        "class_temperature": "_temperature.class_temperature:ClassTemperatureScaling",
        "dirichlet": "_linear.dirichlet:DirichletCalibrator",
        "enir": "_one_vs_rest.enir:ENIR",
        "ensemble_temperature": (
            "_temperature.ensemble_temperature:EnsembleTemperatureScaling"
        ),
        "focal_posterior": "_temperature.focal_temperature:FocalPosterior",
        "focal_temperature": "_temperature.focal_temperature:FocalTemperatureScaling",
        "histogram": "_one_vs_rest.histogram:HistogramBinning",
        "isotonic": "_one_vs_rest.isotonic:IsotonicCalibration",
        "joint_beta": "_linear.joint_beta:JointBetaCalibration",
        "joint_log_odds_spline": "_linear.joint_spline:JointLogOddsSplineCalibration",
        "joint_isotonic": "_one_vs_rest.isotonic:JointIsotonicCalibration",
        "log_odds_spline": "_one_vs_rest.log_odds_spline:LogOddsSplineCalibration",
        "matrix": "_linear.matrix:MatrixScaling",
        "meta_cal": "_top_label.metacal:MetaCal",
        "platt": "_one_vs_rest.platt:PlattScaling",
        "quadratic_logistic": (
            "_one_vs_rest.quadratic_logistic:QuadraticLogisticCalibration"
        ),
        "scaling_binning": "_one_vs_rest.histogram:ScalingBinning",
        "spline": "_top_label.confidence_spline:SplineCalibration",
        "structured_matrix": "_linear.structured:StructuredMatrixScaling",
        "structured_vector": "_linear.structured:StructuredVectorScaling",
        "temperature": "_temperature.temperature:TemperatureScaling",
        "top_label": "_top_label.top_label:TopLabelCalibrator",
        "vector": "_linear.vector:VectorScaling",
        "venn_abers": "_one_vs_rest.venn_abers:VennAbers",
    },
    # Of scikit-learn, netcal and probmetrics, and acronyms of papers.
    {
        "dircal": "dirichlet",
        "ets": "ensemble_temperature",
        "hb": "histogram",
        "isotonic_regression": "isotonic",
        "ivap": "venn_abers",
        "logistic": "platt",
        "ms": "matrix",
        "sigmoid": "platt",
        "sms": "structured_matrix",
        "svs": "structured_vector",
        "temp_scaling": "temperature",
        "ts": "temperature",
        "vs": "vector",
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
