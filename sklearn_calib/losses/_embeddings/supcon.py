"""Supervised contrastive (SupCon) loss of embeddings."""

from typing import Annotated

from torch import Tensor

from sklearn_calib.losses._base.checks import (
    Reduction,
    check_overflow,
    check_positive,
    checking,
)
from sklearn_calib.losses._base.decorators import loss_function, parameters_of
from sklearn_calib.losses._base.loss import ReducedLoss
from sklearn_calib.losses._embeddings.similarities import (
    flatten_views,
    reduce_anchors,
    same_label,
    similarities,
)

HINT = "A common value is 0.1."
Temperature = Annotated[float, checking(check_positive, hint=HINT)]
BaseTemperature = Annotated[
    float, checking(check_positive, also=", or None", hint=HINT)
]


@loss_function
def supcon_loss(
    embeddings: Tensor,
    target: Tensor,
    *,
    temperature: Temperature = 0.1,
    base_temperature: BaseTemperature | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Supervised contrastive (SupCon) loss: cross-entropy over pairwise similarities.

    Each view of each sample is an anchor. Its loss is the mean negative log probability
    of the views with the same label, under a softmax over the similarities to all other
    views. Unlike other losses, it takes embeddings instead of logits. It is used to
    train an encoder, as in the first stage of :class:`~sklearn_calib.RefCalClassifier`.

    Parameters
    ----------
    embeddings : Tensor of shape (N, views, d) or (N, d)
        Embeddings of norm 1, for example from `torch.nn.functional.normalize`. They are
        not normalised here.
    target : Tensor of shape (N,)
        Integer labels. For unlabelled data pass ``torch.arange(N)``, so that only the
        views of the same sample share a label. This is the loss of SimCLR.
    temperature : float, default=0.1
        Divisor of the similarities, above 0. With smaller values, the closest views
        have more influence.
    base_temperature : float, default=None
        If given, the loss is multiplied by ``temperature / base_temperature``, as in
        the authors' code, which uses 0.07. None is the loss of the paper.
    reduction : {"mean", "sum", "none"}, default="mean"
        Whether to return the mean over the anchors, the sum, or the loss of each
        anchor.

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
        If a parameter or `embeddings` has the wrong type.

    See Also
    --------
    SupConLoss : Module version of this function.
    refinement_loss : Loss for which this one is an upper bound.

    Notes
    -----
    With the similarities :math:`s_{ia} = z_i \cdot z_a`, the loss of anchor i is

    .. math::
        -\frac{1}{|P_i|} \sum_{p \in P_i}
        \log \frac{\exp(s_{ip} / \tau)}{\sum_{a \neq i} \exp(s_{ia} / \tau)},

    where the positives :math:`P_i` are the other embeddings of the same label. An
    anchor without a positive in the batch is ignored in the mean, and its loss is 0
    with ``reduction="none"``. If there are no anchors, the loss is 0.

    Equation 4 of [2]_ contains ``exp(s) / tau``, from which the temperature cancels.
    This appears to be a misprint, so the equation of [1]_ is used.

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
    temperature = float(temperature)
    rows, labels = flatten_views(embeddings, target)
    positive = same_label(labels)
    anchors = positive.any(1)
    positive = positive[anchors]
    # An anchor is not compared with itself. Rows without a positive are removed first,
    # because a row without any other candidate would give NaN.
    scores = similarities(rows).fill_diagonal_(-float("inf"))[anchors] / temperature
    log_proba = scores.log_softmax(1).masked_fill(~positive, 0.0)
    values = -log_proba.sum(1) / positive.sum(1)
    if base_temperature is not None:
        values = values * (temperature / float(base_temperature))
    value = reduce_anchors(values, anchors, embeddings.shape[:-1], reduction)
    return check_overflow("embeddings", embeddings, value)


class SupConLoss(ReducedLoss):
    """Module version of :func:`supcon_loss`. See there for details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import SupConLoss
    >>> views = torch.eye(2).unsqueeze(1).expand(2, 2, 2)
    >>> SupConLoss(temperature=0.5)(views, torch.tensor([0, 1]))
    tensor(0.2395)
    """

    @parameters_of(supcon_loss)
    def __init__(self) -> None: ...

    def forward(self, embeddings: Tensor, target: Tensor) -> Tensor:
        """Return the loss of a batch; see :func:`supcon_loss`."""
        return supcon_loss(embeddings, target, **self._arguments())
