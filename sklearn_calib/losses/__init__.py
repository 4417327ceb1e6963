"""Losses as torch modules, each with its functional twin: logits in, a loss out.

`SupConLoss` and `RefinementLoss` take embeddings: they have no name in the registry.
"""

from sklearn_calib.losses._acls import ACLSLoss, acls_loss
from sklearn_calib.losses._ada_dual_focal import AdaDualFocalLoss, ada_dual_focal_loss
from sklearn_calib.losses._adafocal import AdaFocalLoss, adafocal_loss
from sklearn_calib.losses._aucm import AUCMLoss, aucm_loss
from sklearn_calib.losses._aurc import AURCLoss, aurc_loss
from sklearn_calib.losses._avuc import AvUCLoss, avuc_loss
from sklearn_calib.losses._base import CalibrationLoss
from sklearn_calib.losses._brier import BrierLoss, brier_loss
from sklearn_calib.losses._calfocal import CalFocalLoss, calfocal_loss
from sklearn_calib.losses._confidence_penalty import (
    ConfidencePenaltyLoss,
    confidence_penalty_loss,
)
from sklearn_calib.losses._crl import CRLLoss, crl_loss
from sklearn_calib.losses._cross_entropy import CrossEntropyLoss, cross_entropy_loss
from sklearn_calib.losses._dual_focal import DualFocalLoss, dual_focal_loss
from sklearn_calib.losses._focal import FocalLoss, focal_loss
from sklearn_calib.losses._focal_calibration import (
    FocalCalibrationLoss,
    focal_calibration_loss,
)
from sklearn_calib.losses._inverse_focal import InverseFocalLoss, inverse_focal_loss
from sklearn_calib.losses._kde import KDEECELoss, kde_ece_loss
from sklearn_calib.losses._label_relaxation import (
    LabelRelaxationLoss,
    label_relaxation_loss,
)
from sklearn_calib.losses._logitnorm import LogitNormLoss, logitnorm_loss
from sklearn_calib.losses._max_sup import MaxSupLoss, max_sup_loss
from sklearn_calib.losses._mbls import MbLSLoss, mbls_loss
from sklearn_calib.losses._mdca import DCALoss, MDCALoss, dca_loss, mdca_loss
from sklearn_calib.losses._mmce import (
    MMCELoss,
    WeightedMMCELoss,
    mmce_loss,
    weighted_mmce_loss,
)
from sklearn_calib.losses._per_label import PerLabelLoss, per_label_loss
from sklearn_calib.losses._refinement import RefinementLoss, refinement_loss
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
from sklearn_calib.losses._soft_calibration import (
    SoftBinnedECELoss,
    soft_binned_ece_loss,
)
from sklearn_calib.losses._soft_rank import soft_rank
from sklearn_calib.losses._supcon import SupConLoss, supcon_loss

__all__ = [
    "ACLSLoss",
    "AUCMLoss",
    "AURCLoss",
    "AdaDualFocalLoss",
    "AdaFocalLoss",
    "AvUCLoss",
    "BrierLoss",
    "CRLLoss",
    "CalFocalLoss",
    "CalibrationLoss",
    "ConfidencePenaltyLoss",
    "CrossEntropyLoss",
    "DCALoss",
    "DualFocalLoss",
    "FocalCalibrationLoss",
    "FocalLoss",
    "InverseFocalLoss",
    "KDEECELoss",
    "LabelRelaxationLoss",
    "LogitNormLoss",
    "MDCALoss",
    "MMCELoss",
    "MaxSupLoss",
    "MbLSLoss",
    "PerLabelLoss",
    "RefinementLoss",
    "RegularizedAURCLoss",
    "SampleDependentFocalLoss",
    "SelectiveAURCLoss",
    "SoftBinnedECELoss",
    "SupConLoss",
    "WeightedMMCELoss",
    "acls_loss",
    "ada_dual_focal_loss",
    "adafocal_loss",
    "aucm_loss",
    "aurc_loss",
    "avuc_loss",
    "brier_loss",
    "calfocal_loss",
    "confidence_penalty_loss",
    "crl_loss",
    "cross_entropy_loss",
    "dca_loss",
    "dual_focal_loss",
    "focal_calibration_loss",
    "focal_loss",
    "get_loss",
    "get_loss_names",
    "inverse_focal_loss",
    "kde_ece_loss",
    "label_relaxation_loss",
    "logitnorm_loss",
    "max_sup_loss",
    "mbls_loss",
    "mdca_loss",
    "mmce_loss",
    "per_label_loss",
    "refinement_loss",
    "regularized_aurc_loss",
    "sample_dependent_focal_loss",
    "selective_aurc_loss",
    "soft_binned_ece_loss",
    "soft_rank",
    "supcon_loss",
    "weighted_mmce_loss",
]
