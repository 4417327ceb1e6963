"""Registry of the losses by name; a new loss needs a row here."""

from typing import Any

from sklearn_calib._lazy_names import Registry
from sklearn_calib._validation.declarations import validate_params

LOSSES = Registry(
    "loss",
    "sklearn_calib.losses",
    {
        "acls": "_penalties.acls:ACLSLoss",
        "ada_dual_focal": "_focal.adafocal:AdaDualFocalLoss",
        "adafocal": "_focal.adafocal:AdaFocalLoss",
        "aucm": "_ranking.aucm:AUCMLoss",
        "aurc": "_ranking.aurc:AURCLoss",
        "avuc": "_penalties.avuc:AvUCLoss",
        "brier": "_scoring_rules.brier:BrierLoss",
        "calfocal": "_focal.calfocal:CalFocalLoss",
        "confidence_penalty": "_penalties.confidence_penalty:ConfidencePenaltyLoss",
        "crl": "_ranking.crl:CRLLoss",
        "cross_entropy": "_scoring_rules.cross_entropy:CrossEntropyLoss",
        "dca": "_penalties.mdca:DCALoss",
        "dual_focal": "_focal.dual_focal:DualFocalLoss",
        "focal": "_focal.focal:FocalLoss",
        "focal_calibration": "_focal.focal_calibration:FocalCalibrationLoss",
        "inverse_focal": "_focal.inverse_focal:InverseFocalLoss",
        "kde_ece": "_penalties.kde_ece:KDEECELoss",
        "label_relaxation": "_scoring_rules.label_relaxation:LabelRelaxationLoss",
        "logitnorm": "_scoring_rules.logitnorm:LogitNormLoss",
        "max_sup": "_penalties.max_sup:MaxSupLoss",
        "mbls": "_penalties.mbls:MbLSLoss",
        "mdca": "_penalties.mdca:MDCALoss",
        "mmce": "_penalties.mmce:MMCELoss",
        "per_label": "_per_label_loss:PerLabelLoss",
        "regularized_aurc": "_ranking.aurc:RegularizedAURCLoss",
        "sample_dependent_focal": (
            "_focal.sample_dependent_focal:SampleDependentFocalLoss"
        ),
        "selective_aurc": "_ranking.selective_aurc:SelectiveAURCLoss",
        "soft_binned_ece": "_penalties.soft_binned_ece:SoftBinnedECELoss",
        "weighted_mmce": "_penalties.mmce:WeightedMMCELoss",
    },
    {
        "bce": "cross_entropy",
        "ce": "cross_entropy",
        "flsd": "sample_dependent_focal",
        "label_smoothing": "cross_entropy",
        "log_loss": "cross_entropy",
        "mse": "brier",
        "nll": "cross_entropy",
    },
)


def get_loss(name: str) -> type[Any]:
    """Return the loss class with a given name.

    Parameters
    ----------
    name : str
        A name that :func:`get_loss_names` returns, for either value of `multilabel`.

    Returns
    -------
    loss : type
        A subclass of :class:`CalibrationLoss`.

    Raises
    ------
    ValueError
        If no loss has this name. The message suggests the closest one.

    Examples
    --------
    >>> from sklearn_calib.losses import get_loss
    >>> get_loss("focal")(gamma=2.0)
    FocalLoss(gamma=2.0, ignore_index=-100, reduction='mean')
    """
    return LOSSES.get(name)


@validate_params({"multilabel": ["boolean"]})
def get_loss_names(*, multilabel: bool = False) -> list[str]:
    """Return the names of the registered losses.

    Parameters
    ----------
    multilabel : bool, default=False
        Whether to return the names of the losses for multi-label problems instead of
        those for binary and multi-class problems, which `NeuralClassifier` accepts.

    Returns
    -------
    names : list of str
        Sorted names.

    Examples
    --------
    >>> from sklearn_calib.losses import get_loss_names
    >>> "dual_focal" in get_loss_names()
    True
    >>> get_loss_names(multilabel=True)
    ['per_label']
    """
    names = LOSSES.names()
    return [n for n in names if get_loss(n).is_multilabel == multilabel]
