"""Losses as torch modules, each with its functional twin: logits in, a loss out."""

from sklearn_calib.losses._ada_dual_focal import AdaDualFocalLoss, ada_dual_focal_loss
from sklearn_calib.losses._adafocal import AdaFocalLoss, adafocal_loss
from sklearn_calib.losses._aurc import AURCLoss, aurc_loss
from sklearn_calib.losses._base import CalibrationLoss
from sklearn_calib.losses._brier import BrierLoss, brier_loss
from sklearn_calib.losses._calfocal import CalFocalLoss, calfocal_loss
from sklearn_calib.losses._cross_entropy import CrossEntropyLoss, cross_entropy_loss
from sklearn_calib.losses._dual_focal import DualFocalLoss, dual_focal_loss
from sklearn_calib.losses._focal import FocalLoss, focal_loss
from sklearn_calib.losses._focal_calibration import (
    FocalCalibrationLoss,
    focal_calibration_loss,
)
from sklearn_calib.losses._inverse_focal import InverseFocalLoss, inverse_focal_loss
from sklearn_calib.losses._registry import get_loss, get_loss_names
from sklearn_calib.losses._regularized_aurc import (
    RegularizedAURCLoss,
    regularized_aurc_loss,
)
from sklearn_calib.losses._sample_dependent_focal import (
    SampleDependentFocalLoss,
    sample_dependent_focal_loss,
)
from sklearn_calib.losses._selective_aurc import SelectiveAURCLoss, selective_aurc_loss
from sklearn_calib.losses._soft_rank import soft_rank

__all__ = [
    "AURCLoss",
    "AdaDualFocalLoss",
    "AdaFocalLoss",
    "BrierLoss",
    "CalFocalLoss",
    "CalibrationLoss",
    "CrossEntropyLoss",
    "DualFocalLoss",
    "FocalCalibrationLoss",
    "FocalLoss",
    "InverseFocalLoss",
    "RegularizedAURCLoss",
    "SampleDependentFocalLoss",
    "SelectiveAURCLoss",
    "ada_dual_focal_loss",
    "adafocal_loss",
    "aurc_loss",
    "brier_loss",
    "calfocal_loss",
    "cross_entropy_loss",
    "dual_focal_loss",
    "focal_calibration_loss",
    "focal_loss",
    "get_loss",
    "get_loss_names",
    "inverse_focal_loss",
    "regularized_aurc_loss",
    "sample_dependent_focal_loss",
    "selective_aurc_loss",
    "soft_rank",
]
