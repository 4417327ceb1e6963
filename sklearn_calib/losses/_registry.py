"""The losses by name: adding one is a row here."""

from sklearn_calib._core.validation import did_you_mean
from sklearn_calib.losses._acls import ACLSLoss
from sklearn_calib.losses._ada_dual_focal import AdaDualFocalLoss
from sklearn_calib.losses._adafocal import AdaFocalLoss
from sklearn_calib.losses._aucm import AUCMLoss
from sklearn_calib.losses._aurc import AURCLoss
from sklearn_calib.losses._avuc import AvUCLoss
from sklearn_calib.losses._brier import BrierLoss
from sklearn_calib.losses._calfocal import CalFocalLoss
from sklearn_calib.losses._confidence_penalty import ConfidencePenaltyLoss
from sklearn_calib.losses._crl import CRLLoss
from sklearn_calib.losses._cross_entropy import CrossEntropyLoss
from sklearn_calib.losses._dual_focal import DualFocalLoss
from sklearn_calib.losses._focal import FocalLoss
from sklearn_calib.losses._focal_calibration import FocalCalibrationLoss
from sklearn_calib.losses._inverse_focal import InverseFocalLoss
from sklearn_calib.losses._kde import KDEECELoss
from sklearn_calib.losses._label_relaxation import LabelRelaxationLoss
from sklearn_calib.losses._logitnorm import LogitNormLoss
from sklearn_calib.losses._max_sup import MaxSupLoss
from sklearn_calib.losses._mbls import MbLSLoss
from sklearn_calib.losses._mdca import DCALoss, MDCALoss
from sklearn_calib.losses._mmce import MMCELoss, WeightedMMCELoss
from sklearn_calib.losses._per_label import PerLabelLoss
from sklearn_calib.losses._regularized_aurc import RegularizedAURCLoss
from sklearn_calib.losses._sample_dependent_focal import SampleDependentFocalLoss
from sklearn_calib.losses._selective_aurc import SelectiveAURCLoss
from sklearn_calib.losses._soft_calibration import SoftBinnedECELoss

_LOSSES = {
    "acls": ACLSLoss,
    "ada_dual_focal": AdaDualFocalLoss,
    "adafocal": AdaFocalLoss,
    "aucm": AUCMLoss,
    "aurc": AURCLoss,
    "avuc": AvUCLoss,
    "brier": BrierLoss,
    "calfocal": CalFocalLoss,
    "confidence_penalty": ConfidencePenaltyLoss,
    "crl": CRLLoss,
    "cross_entropy": CrossEntropyLoss,
    "dca": DCALoss,
    "dual_focal": DualFocalLoss,
    "focal": FocalLoss,
    "focal_calibration": FocalCalibrationLoss,
    "inverse_focal": InverseFocalLoss,
    "kde_ece": KDEECELoss,
    "label_relaxation": LabelRelaxationLoss,
    "logitnorm": LogitNormLoss,
    "max_sup": MaxSupLoss,
    "mbls": MbLSLoss,
    "mdca": MDCALoss,
    "mmce": MMCELoss,
    "per_label": PerLabelLoss,
    "regularized_aurc": RegularizedAURCLoss,
    "sample_dependent_focal": SampleDependentFocalLoss,
    "selective_aurc": SelectiveAURCLoss,
    "soft_binned_ece": SoftBinnedECELoss,
    "weighted_mmce": WeightedMMCELoss,
}


def get_loss(name):
    """Return the class of the loss that is registered under a name.

    Parameters
    ----------
    name : str
        One of :func:`get_loss_names`, of either kind.

    Returns
    -------
    loss : type
        A subclass of :class:`CalibrationLoss`.

    Raises
    ------
    ValueError
        If no loss has this name; the message suggests the closest.

    Examples
    --------
    >>> from sklearn_calib.losses import get_loss
    >>> get_loss("focal")(gamma=2.0)
    FocalLoss(gamma=2.0, reduction='mean')
    """
    if isinstance(name, str) and name in _LOSSES:
        return _LOSSES[name]
    raise ValueError(
        f"the name of a loss must be one of {sorted(_LOSSES)}, got {name!r}."
        f"{did_you_mean(name, _LOSSES)}"
    )


def get_loss_names(*, multilabel=False):
    """Return the names of all losses of one kind.

    Parameters
    ----------
    multilabel : bool, default=False
        Whether to name the losses for samples that have several labels at once, or
        those for samples of one class, which `NeuralClassifier` trains with.

    Returns
    -------
    names : list of str
        Sorted.

    Examples
    --------
    >>> from sklearn_calib.losses import get_loss_names
    >>> "dual_focal" in get_loss_names()
    True
    >>> get_loss_names(multilabel=True)
    ['per_label']
    """
    return [n for n in sorted(_LOSSES) if _LOSSES[n].is_multilabel == multilabel]
