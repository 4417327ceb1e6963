"""Loss functions on logits, each also available as a torch module.

`SupConLoss` and `RefinementLoss` take embeddings instead of logits and are therefore
not in the registry.
"""

from typing import TYPE_CHECKING

from sklearn_calib._core.lazy import lazy_names
from sklearn_calib.losses._registry import LOSSES

if TYPE_CHECKING:  # editors and type checkers cannot follow lazy imports
    from sklearn_calib.losses._acls import ACLSLoss as ACLSLoss, acls_loss as acls_loss
    from sklearn_calib.losses._ada_dual_focal import (
        AdaDualFocalLoss as AdaDualFocalLoss,
        ada_dual_focal_loss as ada_dual_focal_loss,
    )
    from sklearn_calib.losses._adafocal import (
        AdaFocalLoss as AdaFocalLoss,
        adafocal_loss as adafocal_loss,
    )
    from sklearn_calib.losses._aucm import AUCMLoss as AUCMLoss, aucm_loss as aucm_loss
    from sklearn_calib.losses._avuc import AvUCLoss as AvUCLoss, avuc_loss as avuc_loss
    from sklearn_calib.losses._brier import (
        BrierLoss as BrierLoss,
        brier_loss as brier_loss,
    )
    from sklearn_calib.losses._calfocal import (
        CalFocalLoss as CalFocalLoss,
        calfocal_loss as calfocal_loss,
    )
    from sklearn_calib.losses._calibration_loss import (
        CalibrationLoss as CalibrationLoss,
    )
    from sklearn_calib.losses._confidence_penalty import (
        ConfidencePenaltyLoss as ConfidencePenaltyLoss,
        confidence_penalty_loss as confidence_penalty_loss,
    )
    from sklearn_calib.losses._crl import CRLLoss as CRLLoss, crl_loss as crl_loss
    from sklearn_calib.losses._cross_entropy import (
        CrossEntropyLoss as CrossEntropyLoss,
        cross_entropy_loss as cross_entropy_loss,
    )
    from sklearn_calib.losses._dual_focal import (
        DualFocalLoss as DualFocalLoss,
        dual_focal_loss as dual_focal_loss,
    )
    from sklearn_calib.losses._focal import (
        FocalLoss as FocalLoss,
        focal_loss as focal_loss,
    )
    from sklearn_calib.losses._focal_calibration import (
        FocalCalibrationLoss as FocalCalibrationLoss,
        focal_calibration_loss as focal_calibration_loss,
    )
    from sklearn_calib.losses._inverse_focal import (
        InverseFocalLoss as InverseFocalLoss,
        inverse_focal_loss as inverse_focal_loss,
    )
    from sklearn_calib.losses._kde import (
        KDEECELoss as KDEECELoss,
        kde_ece_loss as kde_ece_loss,
    )
    from sklearn_calib.losses._label_relaxation import (
        LabelRelaxationLoss as LabelRelaxationLoss,
        label_relaxation_loss as label_relaxation_loss,
    )
    from sklearn_calib.losses._logitnorm import (
        LogitNormLoss as LogitNormLoss,
        logitnorm_loss as logitnorm_loss,
    )
    from sklearn_calib.losses._max_sup import (
        MaxSupLoss as MaxSupLoss,
        max_sup_loss as max_sup_loss,
    )
    from sklearn_calib.losses._mbls import MbLSLoss as MbLSLoss, mbls_loss as mbls_loss
    from sklearn_calib.losses._mdca import (
        DCALoss as DCALoss,
        MDCALoss as MDCALoss,
        dca_loss as dca_loss,
        mdca_loss as mdca_loss,
    )
    from sklearn_calib.losses._mmce import (
        MMCELoss as MMCELoss,
        WeightedMMCELoss as WeightedMMCELoss,
        mmce_loss as mmce_loss,
        weighted_mmce_loss as weighted_mmce_loss,
    )
    from sklearn_calib.losses._per_label import (
        PerLabelLoss as PerLabelLoss,
        per_label_loss as per_label_loss,
    )
    from sklearn_calib.losses._refinement import (
        RefinementLoss as RefinementLoss,
        refinement_loss as refinement_loss,
    )
    from sklearn_calib.losses._registry import (
        get_loss as get_loss,
        get_loss_names as get_loss_names,
    )
    from sklearn_calib.losses._regularized_aurc import (
        AURCLoss as AURCLoss,
        RegularizedAURCLoss as RegularizedAURCLoss,
        aurc_loss as aurc_loss,
        regularized_aurc_loss as regularized_aurc_loss,
    )
    from sklearn_calib.losses._sample_dependent_focal import (
        SampleDependentFocalLoss as SampleDependentFocalLoss,
        sample_dependent_focal_loss as sample_dependent_focal_loss,
    )
    from sklearn_calib.losses._selective_aurc import (
        SelectiveAURCLoss as SelectiveAURCLoss,
        selective_aurc_loss as selective_aurc_loss,
    )
    from sklearn_calib.losses._soft_calibration import (
        SoftBinnedECELoss as SoftBinnedECELoss,
        soft_binned_ece_loss as soft_binned_ece_loss,
    )
    from sklearn_calib.losses._soft_rank import soft_rank as soft_rank
    from sklearn_calib.losses._supcon import (
        SupConLoss as SupConLoss,
        supcon_loss as supcon_loss,
    )

_HOMES = {
    **LOSSES.homes(),
    **{f"{name}_loss": LOSSES.home(name) for name in LOSSES.names()},
    "CalibrationLoss": "sklearn_calib.losses._calibration_loss",
    "RefinementLoss": "sklearn_calib.losses._refinement",
    "SupConLoss": "sklearn_calib.losses._supcon",
    "get_loss": "sklearn_calib.losses._registry",
    "get_loss_names": "sklearn_calib.losses._registry",
    "refinement_loss": "sklearn_calib.losses._refinement",
    "soft_rank": "sklearn_calib.losses._soft_rank",
    "supcon_loss": "sklearn_calib.losses._supcon",
}

__all__ = sorted(_HOMES)

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
