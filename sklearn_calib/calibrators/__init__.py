"""Post-hoc calibrators: maps from predicted to calibrated probabilities."""

from typing import TYPE_CHECKING

from sklearn_calib._lazy_names import lazy_names
from sklearn_calib.calibrators._base.calibrator_names import CALIBRATORS

if TYPE_CHECKING:  # editors and type checkers cannot follow lazy loading
    from sklearn_calib.calibrators._base.calibrator import Calibrator as Calibrator
    from sklearn_calib.calibrators._base.calibrator_names import (
        get_calibrator as get_calibrator,
        get_calibrator_names as get_calibrator_names,
    )
    from sklearn_calib.calibrators._combined.auto import (
        AutoCalibrator as AutoCalibrator,
    )
    from sklearn_calib.calibrators._combined.boosting import (
        BoostingCalibrator as BoostingCalibrator,
    )
    from sklearn_calib.calibrators._combined.per_label_calibrator import (
        PerLabelCalibrator as PerLabelCalibrator,
    )
    from sklearn_calib.calibrators._groups.group_calibrator import (
        GroupCalibrator as GroupCalibrator,
    )
    from sklearn_calib.calibrators._groups.multicalibration_boosting import (
        MulticalibrationBoosting as MulticalibrationBoosting,
    )
    from sklearn_calib.calibrators._groups.per_group_maps import (
        PerGroupCalibrator as PerGroupCalibrator,
    )
    from sklearn_calib.calibrators._linear.dirichlet import (
        DirichletCalibrator as DirichletCalibrator,
    )
    from sklearn_calib.calibrators._linear.joint_beta import (
        JointBetaCalibration as JointBetaCalibration,
    )
    from sklearn_calib.calibrators._linear.joint_spline import (
        JointLogOddsSplineCalibration as JointLogOddsSplineCalibration,
    )
    from sklearn_calib.calibrators._linear.matrix import MatrixScaling as MatrixScaling
    from sklearn_calib.calibrators._linear.structured import (
        StructuredMatrixScaling as StructuredMatrixScaling,
        StructuredVectorScaling as StructuredVectorScaling,
    )
    from sklearn_calib.calibrators._linear.vector import VectorScaling as VectorScaling
    from sklearn_calib.calibrators._one_vs_rest.bbq import BBQ as BBQ
    from sklearn_calib.calibrators._one_vs_rest.beta import (
        BetaCalibration as BetaCalibration,
    )
    from sklearn_calib.calibrators._one_vs_rest.enir import ENIR as ENIR
    from sklearn_calib.calibrators._one_vs_rest.histogram import (
        HistogramBinning as HistogramBinning,
        ScalingBinning as ScalingBinning,
    )
    from sklearn_calib.calibrators._one_vs_rest.isotonic import (
        IsotonicCalibration as IsotonicCalibration,
        JointIsotonicCalibration as JointIsotonicCalibration,
    )
    from sklearn_calib.calibrators._one_vs_rest.log_odds_spline import (
        LogOddsSplineCalibration as LogOddsSplineCalibration,
    )
    from sklearn_calib.calibrators._one_vs_rest.platt import (
        PlattScaling as PlattScaling,
    )
    from sklearn_calib.calibrators._one_vs_rest.quadratic_logistic import (
        QuadraticLogisticCalibration as QuadraticLogisticCalibration,
    )
    from sklearn_calib.calibrators._one_vs_rest.venn_abers import VennAbers as VennAbers
    from sklearn_calib.calibrators._temperature.class_temperature import (
        ClassTemperatureScaling as ClassTemperatureScaling,
    )
    from sklearn_calib.calibrators._temperature.ensemble_temperature import (
        EnsembleTemperatureScaling as EnsembleTemperatureScaling,
    )
    from sklearn_calib.calibrators._temperature.focal_temperature import (
        FocalPosterior as FocalPosterior,
        FocalTemperatureScaling as FocalTemperatureScaling,
    )
    from sklearn_calib.calibrators._temperature.temperature import (
        TemperatureScaling as TemperatureScaling,
    )
    from sklearn_calib.calibrators._temperature.temperature_accumulator import (
        TemperatureAccumulator as TemperatureAccumulator,
    )
    from sklearn_calib.calibrators._top_label.confidence_spline import (
        SplineCalibration as SplineCalibration,
    )
    from sklearn_calib.calibrators._top_label.metacal import MetaCal as MetaCal
    from sklearn_calib.calibrators._top_label.top_label import (
        TopLabelCalibrator as TopLabelCalibrator,
    )

_HOMES = {
    **{
        CALIBRATORS.class_name(name): CALIBRATORS.home(name)
        for name in CALIBRATORS.names()
    },
    "BoostingCalibrator": "sklearn_calib.calibrators._combined.boosting",
    "Calibrator": "sklearn_calib.calibrators._base.calibrator",
    "GroupCalibrator": "sklearn_calib.calibrators._groups.group_calibrator",
    "MulticalibrationBoosting": (
        "sklearn_calib.calibrators._groups.multicalibration_boosting"
    ),
    "PerGroupCalibrator": "sklearn_calib.calibrators._groups.per_group_maps",
    "PerLabelCalibrator": "sklearn_calib.calibrators._combined.per_label_calibrator",
    "TemperatureAccumulator": (
        "sklearn_calib.calibrators._temperature.temperature_accumulator"
    ),
    "get_calibrator": "sklearn_calib.calibrators._base.calibrator_names",
    "get_calibrator_names": "sklearn_calib.calibrators._base.calibrator_names",
}

__all__ = sorted(_HOMES)

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
