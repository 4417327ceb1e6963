"""Supervised contrastive loss, SupCon: samples of a class close, the others far."""

import math

from torch import Tensor

from sklearn_calib.losses._base import (
    REDUCTIONS,
    check_choice,
    check_nonnegative,
)
from sklearn_calib.losses._embeddings import (
    flatten_views,
    reduce_anchors,
    same_label,
    similarities,
    within_range,
)
from sklearn_calib.losses._reduced_loss import ReducedLoss
from sklearn_calib.losses._typing import Reduction


def supcon_loss(
    embeddings: Tensor,
    target: Tensor,
    *,
    temperature: float = 0.1,
    base_temperature: float | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Supervised contrastive loss, SupCon: is a sample closest to its own class.

    Each view of each sample asks, as an anchor, by a softmax over its similarities to
    all others, how surely it would find those of its own label. The smaller the
    better. It trains an encoder, as :class:`~sklearn_calib.RefCalClassifier` does in
    its first stage: it takes embeddings where the losses with names take logits.

    Parameters
    ----------
    embeddings : Tensor of shape (N, views, d) or (N, d)
        Embeddings of length 1, such as `torch.nn.functional.normalize` returns: they
        are not normalised here.
    target : Tensor of shape (N,)
        Labels, integers. Without labels pass ``torch.arange(N)``: only the views of a
        sample then belong together, which is the loss of SimCLR.
    temperature : float, default=0.1
        What the similarities are divided by, greater than 0. The smaller, the more
        count the closest of the others.
    base_temperature : float, default=None
        Multiply the loss by ``temperature / base_temperature``, as the authors' code
        does with 0.07. None leaves it as it is in the paper.
    reduction : {"mean", "sum", "none"}, default="mean"
        What to return: the mean over the anchors, their sum, or one loss for each.

    Returns
    -------
    loss : Tensor
        A scalar, or with ``reduction="none"`` of the shape of `embeddings` without its
        last dimension.

    Raises
    ------
    ValueError
        If a parameter is out of range or the shapes do not match.
    TypeError
        If a parameter or the embeddings are of the wrong type.

    See Also
    --------
    SupConLoss : The same as a module.
    refinement_loss : What it is an upper bound of.

    Notes
    -----
    With the similarities :math:`s_{ia} = z_i \cdot z_a`, the loss of anchor i is

    .. math::
        -\frac{1}{|P_i|} \sum_{p \in P_i}
        \log \frac{\exp(s_{ip} / \tau)}{\sum_{a \neq i} \exp(s_{ia} / \tau)},

    where the positives :math:`P_i` are all others of the same label. An anchor without
    a positive in the batch is left out: it does not count in the mean, and is 0 in
    "none". If there is no anchor the loss is 0.

    Equation 4 of [2]_ is printed with ``exp(s) / tau``, from which the temperature
    cancels; that of [1]_ is meant.

    References
    ----------
    .. [1] P. Khosla, P. Teterwak, C. Wang, A. Sarna, Y. Tian, P. Isola, A. Maschinot,
       C. Liu and D. Krishnan, "Supervised Contrastive Learning", NeurIPS 2020, equation
       2.
    .. [2] R. Hebbalaguppe, A. Shastry, S. S. Ghosal and C. Arora, "Enhancing DNN
       Reliability with Refinement and Calibration", ICLR Workshop on Trustworthy AI
       2026, equation 4.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import supcon_loss
    >>> embeddings = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
    >>> supcon_loss(embeddings, torch.tensor([0, 0, 1]), temperature=1.0)
    tensor(0.4846)
    """
    _check_temperatures(temperature, base_temperature)
    temperature = float(temperature)
    check_choice("reduction", reduction, REDUCTIONS)
    rows, labels = flatten_views(embeddings, target)
    positive = same_label(labels)
    anchors = positive.any(1)
    positive = positive[anchors]
    rows, scale = within_range(rows)
    # An anchor is not among its own candidates. One without a positive may have no
    # candidate at all, and its logarithm would be a NaN: it is gone already.
    scores = similarities(rows).fill_diagonal_(-float("inf"))[anchors]
    if scale > 1:
        # Differences may be finite where the products are not.
        root = scale / math.sqrt(temperature)
        scores = (scores - scores.detach().amax(1, keepdim=True)) * root * root
    else:
        scores = scores / temperature
    log_proba = scores.log_softmax(1).masked_fill(~positive, 0.0)
    values = -log_proba.sum(1) / positive.sum(1)
    if base_temperature is not None:
        values = values * (temperature / float(base_temperature))
    return reduce_anchors(values, anchors, embeddings.shape[:-1], reduction)


def _check_temperatures(temperature: float, base_temperature: float | None) -> None:
    """Raise an error unless both are positive, or the second is None."""
    for name, value in {
        "temperature": temperature,
        "base_temperature": base_temperature,
    }.items():
        if name == "base_temperature" and value is None:
            continue
        if not check_nonnegative(name, value, hint="The usual one is 0.1."):
            raise ValueError(
                f"{name} must be greater than 0, got {value!r}. The usual one is 0.1."
            )


class SupConLoss(ReducedLoss, function=supcon_loss):
    """The module of :func:`supcon_loss`, which has the details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import SupConLoss
    >>> views = torch.eye(2).unsqueeze(1).expand(2, 2, 2)
    >>> SupConLoss(temperature=0.5)(views, torch.tensor([0, 1]))
    tensor(0.2395)
    """

    def __init__(
        self,
        *,
        temperature: float = 0.1,
        base_temperature: float | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        _check_temperatures(temperature, base_temperature)
        self.temperature = temperature
        self.base_temperature = base_temperature

    def forward(self, embeddings: Tensor, target: Tensor) -> Tensor:
        """Return the loss of a batch; see :func:`supcon_loss`."""
        return supcon_loss(embeddings, target, **self._arguments())
