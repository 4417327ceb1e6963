"""The calibrators by name: adding one is a row here."""

from sklearn_calib._core.validation import did_you_mean
from sklearn_calib.calibrators._bbq import BBQ
from sklearn_calib.calibrators._beta import BetaCalibration
from sklearn_calib.calibrators._dirichlet import DirichletCalibrator
from sklearn_calib.calibrators._enir import ENIR
from sklearn_calib.calibrators._ensemble_temperature import EnsembleTemperatureScaling
from sklearn_calib.calibrators._focal_temperature import (
    FocalPosterior,
    FocalTemperatureScaling,
)
from sklearn_calib.calibrators._histogram import HistogramBinning, ScalingBinning
from sklearn_calib.calibrators._isotonic import (
    IsotonicCalibration,
    JointIsotonicCalibration,
)
from sklearn_calib.calibrators._joint_beta import JointBetaCalibration
from sklearn_calib.calibrators._matrix import MatrixScaling
from sklearn_calib.calibrators._metacal import MetaCal
from sklearn_calib.calibrators._platt import PlattScaling
from sklearn_calib.calibrators._quadratic_logistic import QuadraticLogisticCalibration
from sklearn_calib.calibrators._spline import SplineCalibration
from sklearn_calib.calibrators._structured import (
    StructuredMatrixScaling,
    StructuredVectorScaling,
)
from sklearn_calib.calibrators._temperature import TemperatureScaling
from sklearn_calib.calibrators._vector import VectorScaling
from sklearn_calib.calibrators._venn_abers import VennAbers

_CALIBRATORS = {
    "bbq": BBQ,
    "beta": BetaCalibration,
    "dirichlet": DirichletCalibrator,
    "enir": ENIR,
    "ensemble_temperature": EnsembleTemperatureScaling,
    "focal_posterior": FocalPosterior,
    "focal_temperature": FocalTemperatureScaling,
    "histogram": HistogramBinning,
    "isotonic": IsotonicCalibration,
    "joint_beta": JointBetaCalibration,
    "joint_isotonic": JointIsotonicCalibration,
    "matrix": MatrixScaling,
    "meta_cal": MetaCal,
    "platt": PlattScaling,
    "quadratic_logistic": QuadraticLogisticCalibration,
    "scaling_binning": ScalingBinning,
    "spline": SplineCalibration,
    "structured_matrix": StructuredMatrixScaling,
    "structured_vector": StructuredVectorScaling,
    "temperature": TemperatureScaling,
    "vector": VectorScaling,
    "venn_abers": VennAbers,
}


def get_calibrator(name):
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
    if isinstance(name, str) and name in _CALIBRATORS:
        return _CALIBRATORS[name]
    raise ValueError(
        f"the name of a calibrator must be one of {get_calibrator_names()}, got "
        f"{name!r}.{did_you_mean(name, _CALIBRATORS)}"
    )


def get_calibrator_names():
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
    return sorted(_CALIBRATORS)
