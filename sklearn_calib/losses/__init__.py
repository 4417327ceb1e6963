"""Loss functions on logits, each also available as a torch module.

`SupConLoss` and `RefinementLoss` take embeddings instead of logits and are therefore
not in the registry.
"""

from typing import TYPE_CHECKING

from sklearn_calib._lazy_names import lazy_names
from sklearn_calib.losses._base.loss_names import LOSSES

if TYPE_CHECKING:  # editors and type checkers cannot follow lazy imports
    from sklearn_calib.losses._base.loss import (
        CalibrationLoss as CalibrationLoss,
    )
    from sklearn_calib.losses._base.loss_names import (
        get_loss as get_loss,
        get_loss_names as get_loss_names,
    )
    from sklearn_calib.losses._embeddings.refinement_loss import (
        RefinementLoss as RefinementLoss,
        refinement_loss as refinement_loss,
    )
    from sklearn_calib.losses._embeddings.supcon import (
        SupConLoss as SupConLoss,
        supcon_loss as supcon_loss,
    )
    from sklearn_calib.losses._focal.adafocal import (
        AdaDualFocalLoss as AdaDualFocalLoss,
        AdaFocalLoss as AdaFocalLoss,
        ada_dual_focal_loss as ada_dual_focal_loss,
        adafocal_loss as adafocal_loss,
    )
    from sklearn_calib.losses._focal.calfocal import (
        CalFocalLoss as CalFocalLoss,
        calfocal_loss as calfocal_loss,
    )
    from sklearn_calib.losses._focal.confidence_regions import (
        confidence_regions as confidence_regions,
    )
    from sklearn_calib.losses._focal.dual_focal import (
        DualFocalLoss as DualFocalLoss,
        dual_focal_loss as dual_focal_loss,
    )
    from sklearn_calib.losses._focal.focal import (
        FocalLoss as FocalLoss,
        focal_loss as focal_loss,
    )
    from sklearn_calib.losses._focal.focal_calibration import (
        FocalCalibrationLoss as FocalCalibrationLoss,
        focal_calibration_loss as focal_calibration_loss,
    )
    from sklearn_calib.losses._focal.inverse_focal import (
        InverseFocalLoss as InverseFocalLoss,
        inverse_focal_loss as inverse_focal_loss,
    )
    from sklearn_calib.losses._focal.sample_dependent_focal import (
        SampleDependentFocalLoss as SampleDependentFocalLoss,
        sample_dependent_focal_loss as sample_dependent_focal_loss,
    )
    from sklearn_calib.losses._penalties.acls import (
        ACLSLoss as ACLSLoss,
        acls_loss as acls_loss,
    )
    from sklearn_calib.losses._penalties.avuc import (
        AvUCLoss as AvUCLoss,
        avuc_loss as avuc_loss,
    )
    from sklearn_calib.losses._penalties.confidence_penalty import (
        ConfidencePenaltyLoss as ConfidencePenaltyLoss,
        confidence_penalty_loss as confidence_penalty_loss,
    )
    from sklearn_calib.losses._penalties.kde_ece import (
        KDEECELoss as KDEECELoss,
        kde_ece_loss as kde_ece_loss,
    )
    from sklearn_calib.losses._penalties.max_sup import (
        MaxSupLoss as MaxSupLoss,
        max_sup_loss as max_sup_loss,
    )
    from sklearn_calib.losses._penalties.mbls import (
        MbLSLoss as MbLSLoss,
        mbls_loss as mbls_loss,
    )
    from sklearn_calib.losses._penalties.mdca import (
        DCALoss as DCALoss,
        MDCALoss as MDCALoss,
        dca_loss as dca_loss,
        mdca_loss as mdca_loss,
    )
    from sklearn_calib.losses._penalties.mmce import (
        MMCELoss as MMCELoss,
        WeightedMMCELoss as WeightedMMCELoss,
        mmce_loss as mmce_loss,
        weighted_mmce_loss as weighted_mmce_loss,
    )
    from sklearn_calib.losses._penalties.soft_binned_ece import (
        SoftBinnedECELoss as SoftBinnedECELoss,
        soft_binned_ece_loss as soft_binned_ece_loss,
    )
    from sklearn_calib.losses._per_label_loss import (
        PerLabelLoss as PerLabelLoss,
        per_label_loss as per_label_loss,
    )
    from sklearn_calib.losses._ranking.aucm import (
        AUCMLoss as AUCMLoss,
        aucm_loss as aucm_loss,
    )
    from sklearn_calib.losses._ranking.aurc import (
        AURCLoss as AURCLoss,
        RegularizedAURCLoss as RegularizedAURCLoss,
        aurc_loss as aurc_loss,
        regularized_aurc_loss as regularized_aurc_loss,
    )
    from sklearn_calib.losses._ranking.crl import (
        CRLLoss as CRLLoss,
        crl_loss as crl_loss,
    )
    from sklearn_calib.losses._ranking.selective_aurc import (
        SelectiveAURCLoss as SelectiveAURCLoss,
        selective_aurc_loss as selective_aurc_loss,
    )
    from sklearn_calib.losses._ranking.soft_rank import soft_rank as soft_rank
    from sklearn_calib.losses._scoring_rules.brier import (
        BrierLoss as BrierLoss,
        brier_loss as brier_loss,
    )
    from sklearn_calib.losses._scoring_rules.cross_entropy import (
        CrossEntropyLoss as CrossEntropyLoss,
        cross_entropy_loss as cross_entropy_loss,
    )
    from sklearn_calib.losses._scoring_rules.label_relaxation import (
        LabelRelaxationLoss as LabelRelaxationLoss,
        label_relaxation_loss as label_relaxation_loss,
    )
    from sklearn_calib.losses._scoring_rules.logitnorm import (
        LogitNormLoss as LogitNormLoss,
        logitnorm_loss as logitnorm_loss,
    )

_HOMES = {
    **LOSSES.homes(),
    **{f"{name}_loss": LOSSES.home(name) for name in LOSSES.names()},
    "CalibrationLoss": "sklearn_calib.losses._base.loss",
    "RefinementLoss": "sklearn_calib.losses._embeddings.refinement_loss",
    "SupConLoss": "sklearn_calib.losses._embeddings.supcon",
    "confidence_regions": "sklearn_calib.losses._focal.confidence_regions",
    "get_loss": "sklearn_calib.losses._base.loss_names",
    "get_loss_names": "sklearn_calib.losses._base.loss_names",
    "refinement_loss": "sklearn_calib.losses._embeddings.refinement_loss",
    "soft_rank": "sklearn_calib.losses._ranking.soft_rank",
    "supcon_loss": "sklearn_calib.losses._embeddings.supcon",
}

__all__ = sorted(_HOMES)

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
