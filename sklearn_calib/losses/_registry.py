"""Registry of the losses by name; a new loss needs a row here."""

from typing import Any

from sklearn_calib._core.registry import Registry
from sklearn_calib._core.validation import validate_params

LOSSES = Registry(
    "loss",
    "sklearn_calib.losses",
    {
        "acls": "_acls:ACLSLoss",
        "ada_dual_focal": "_ada_dual_focal:AdaDualFocalLoss",
        "adafocal": "_adafocal:AdaFocalLoss",
        "aucm": "_aucm:AUCMLoss",
        "aurc": "_regularized_aurc:AURCLoss",
        "avuc": "_avuc:AvUCLoss",
        "brier": "_brier:BrierLoss",
        "calfocal": "_calfocal:CalFocalLoss",
        "confidence_penalty": "_confidence_penalty:ConfidencePenaltyLoss",
        "crl": "_crl:CRLLoss",
        "cross_entropy": "_cross_entropy:CrossEntropyLoss",
        "dca": "_mdca:DCALoss",
        "dual_focal": "_dual_focal:DualFocalLoss",
        "focal": "_focal:FocalLoss",
        "focal_calibration": "_focal_calibration:FocalCalibrationLoss",
        "inverse_focal": "_inverse_focal:InverseFocalLoss",
        "kde_ece": "_kde:KDEECELoss",
        "label_relaxation": "_label_relaxation:LabelRelaxationLoss",
        "logitnorm": "_logitnorm:LogitNormLoss",
        "max_sup": "_max_sup:MaxSupLoss",
        "mbls": "_mbls:MbLSLoss",
        "mdca": "_mdca:MDCALoss",
        "mmce": "_mmce:MMCELoss",
        "per_label": "_per_label:PerLabelLoss",
        "regularized_aurc": "_regularized_aurc:RegularizedAURCLoss",
        "sample_dependent_focal": "_sample_dependent_focal:SampleDependentFocalLoss",
        "selective_aurc": "_selective_aurc:SelectiveAURCLoss",
        "soft_binned_ece": "_soft_calibration:SoftBinnedECELoss",
        "weighted_mmce": "_mmce:WeightedMMCELoss",
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
    FocalLoss(gamma=2.0, reduction='mean')
    """
    return LOSSES.get(name)


@validate_params({"multilabel": ["boolean"]}, prefer_skip_nested_validation=True)
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
