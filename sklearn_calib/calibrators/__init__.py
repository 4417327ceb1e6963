"""Post-hoc calibrators: maps from predicted to calibrated probabilities."""

from typing import TYPE_CHECKING

from sklearn_calib._core.lazy import lazy_names
from sklearn_calib.calibrators._registry import CALIBRATORS

if TYPE_CHECKING:  # editors and type checkers cannot follow lazy loading
    from sklearn_calib.calibrators._auto import AutoCalibrator as AutoCalibrator
    from sklearn_calib.calibrators._base import Calibrator as Calibrator
    from sklearn_calib.calibrators._bbq import BBQ as BBQ
    from sklearn_calib.calibrators._beta import BetaCalibration as BetaCalibration
    from sklearn_calib.calibrators._boosting import (
        BoostingCalibrator as BoostingCalibrator,
    )
    from sklearn_calib.calibrators._class_temperature import (
        ClassTemperatureScaling as ClassTemperatureScaling,
    )
    from sklearn_calib.calibrators._dirichlet import (
        DirichletCalibrator as DirichletCalibrator,
    )
    from sklearn_calib.calibrators._enir import ENIR as ENIR
    from sklearn_calib.calibrators._ensemble_temperature import (
        EnsembleTemperatureScaling as EnsembleTemperatureScaling,
    )
    from sklearn_calib.calibrators._focal_temperature import (
        FocalPosterior as FocalPosterior,
        FocalTemperatureScaling as FocalTemperatureScaling,
    )
    from sklearn_calib.calibrators._group_calibrator import (
        GroupCalibrator as GroupCalibrator,
    )
    from sklearn_calib.calibrators._histogram import (
        HistogramBinning as HistogramBinning,
        ScalingBinning as ScalingBinning,
    )
    from sklearn_calib.calibrators._isotonic import (
        IsotonicCalibration as IsotonicCalibration,
        JointIsotonicCalibration as JointIsotonicCalibration,
    )
    from sklearn_calib.calibrators._joint_beta import (
        JointBetaCalibration as JointBetaCalibration,
    )
    from sklearn_calib.calibrators._joint_log_odds_spline import (
        JointLogOddsSplineCalibration as JointLogOddsSplineCalibration,
    )
    from sklearn_calib.calibrators._log_odds_spline import (
        LogOddsSplineCalibration as LogOddsSplineCalibration,
    )
    from sklearn_calib.calibrators._matrix import MatrixScaling as MatrixScaling
    from sklearn_calib.calibrators._metacal import MetaCal as MetaCal
    from sklearn_calib.calibrators._multicalibration_boosting import (
        MulticalibrationBoosting as MulticalibrationBoosting,
    )
    from sklearn_calib.calibrators._per_group import (
        PerGroupCalibrator as PerGroupCalibrator,
    )
    from sklearn_calib.calibrators._per_label import (
        PerLabelCalibrator as PerLabelCalibrator,
    )
    from sklearn_calib.calibrators._platt import PlattScaling as PlattScaling
    from sklearn_calib.calibrators._quadratic_logistic import (
        QuadraticLogisticCalibration as QuadraticLogisticCalibration,
    )
    from sklearn_calib.calibrators._registry import (
        get_calibrator as get_calibrator,
        get_calibrator_names as get_calibrator_names,
    )
    from sklearn_calib.calibrators._spline import SplineCalibration as SplineCalibration
    from sklearn_calib.calibrators._structured import (
        StructuredMatrixScaling as StructuredMatrixScaling,
        StructuredVectorScaling as StructuredVectorScaling,
    )
    from sklearn_calib.calibrators._temperature import (
        TemperatureScaling as TemperatureScaling,
    )
    from sklearn_calib.calibrators._temperature_accumulator import (
        TemperatureAccumulator as TemperatureAccumulator,
    )
    from sklearn_calib.calibrators._top_label import (
        TopLabelCalibrator as TopLabelCalibrator,
    )
    from sklearn_calib.calibrators._vector import VectorScaling as VectorScaling
    from sklearn_calib.calibrators._venn_abers import VennAbers as VennAbers

_HOMES = {
    **{
        CALIBRATORS.class_name(name): CALIBRATORS.home(name)
        for name in CALIBRATORS.names()
    },
    "BoostingCalibrator": "sklearn_calib.calibrators._boosting",
    "Calibrator": "sklearn_calib.calibrators._base",
    "GroupCalibrator": "sklearn_calib.calibrators._group_calibrator",
    "MulticalibrationBoosting": (
        "sklearn_calib.calibrators._multicalibration_boosting"
    ),
    "PerGroupCalibrator": "sklearn_calib.calibrators._per_group",
    "PerLabelCalibrator": "sklearn_calib.calibrators._per_label",
    "TemperatureAccumulator": "sklearn_calib.calibrators._temperature_accumulator",
    "get_calibrator": "sklearn_calib.calibrators._registry",
    "get_calibrator_names": "sklearn_calib.calibrators._registry",
}

__all__ = sorted(_HOMES)

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
