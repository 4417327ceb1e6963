"""Refinement loss of embeddings."""

import torch
from torch import Tensor

from sklearn_calib.losses._base.checks import (
    REDUCTIONS,
    Reduction,
    check_choice,
    check_overflow,
)
from sklearn_calib.losses._base.loss import ReducedLoss
from sklearn_calib.losses._embeddings.similarities import (
    flatten_views,
    reduce_anchors,
    same_label,
    similarities,
)


def refinement_loss(
    embeddings: Tensor, target: Tensor, *, reduction: Reduction = "mean"
) -> Tensor:
    r"""Refinement loss: nearest same-class distance minus nearest other-class distance.

    The loss of an embedding is negative if its nearest neighbour has the same label,
    and positive if it has another label. For embeddings of norm 1 it is in [-2, 2].
    Unlike other losses, it takes embeddings instead of logits.

    Parameters
    ----------
    embeddings : Tensor of shape (N, views, d) or (N, d)
        Embeddings of norm 1. They are not normalised here.
    target : Tensor of shape (N,)
        Integer labels.
    reduction : {"mean", "sum", "none"}, default="mean"
        Whether to return the mean over the anchors, the sum, as in the paper, or the
        loss of each anchor.

    Returns
    -------
    loss : Tensor
        A scalar, or with ``reduction="none"`` of the shape of `embeddings` without its
        last dimension.

    Raises
    ------
    ValueError
        If `reduction` is invalid or the shapes do not match.
    TypeError
        If `embeddings` or `target` has the wrong type.

    See Also
    --------
    RefinementLoss : Module version of this function.
    supcon_loss : Smooth upper bound of this loss, which is minimised instead.

    Notes
    -----
    The loss of anchor i is

    .. math::
        \min_{p \in P_i} \tfrac{1}{2} \|z_i - z_p\|^2
        - \min_{n \in N_i} \tfrac{1}{2} \|z_i - z_n\|^2,

    with :math:`P_i` the other embeddings of the same label and :math:`N_i` those of
    other labels. As printed in [1]_, :math:`P_i` also contains the anchor. The first
    minimum would then always be 0, so the anchor is left out here, as in SupCon. An
    anchor without a positive or without a negative in the batch is ignored.

    For embeddings of norm 1 and temperatures up to 1, :func:`supcon_loss` is an upper
    bound for each anchor, as stated in [1]_. This does not hold for larger
    temperatures. With ``temperature=10``, SupCon is 0.80 for the anchor (1, 0) with a
    positive at (-1, 0) and a negative at (1, 0), while this loss is 2.

    References
    ----------
    .. [1] R. Hebbalaguppe, A. Shastry, S. S. Ghosal and C. Arora, "Enhancing DNN
       Reliability with Refinement and Calibration", ICLR Workshop on Trustworthy AI
       2026, definition 2, equation 3.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import refinement_loss
    >>> embeddings = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
    >>> refinement_loss(embeddings, torch.tensor([0, 0, 1]), reduction="none")
    tensor([-0.8000, -0.2000,  0.0000])
    """
    check_choice("reduction", reduction, REDUCTIONS)
    rows, labels = flatten_views(embeddings, target)
    positive = same_label(labels)
    negative = labels.unsqueeze(1) != labels
    anchors = positive.any(1) & negative.any(1)
    with torch.no_grad():
        squares = rows.square().sum(1)
        distance = squares.unsqueeze(1) + squares - 2 * similarities(rows)
        nearest = [
            distance.masked_fill(~among, float("inf"))[anchors].argmin(1)
            for among in (positive, negative)
        ]
    to_positive, to_negative = (
        0.5 * (rows[anchors] - rows[index]).square().sum(1) for index in nearest
    )
    values = to_positive - to_negative
    value = reduce_anchors(values, anchors, embeddings.shape[:-1], reduction)
    return check_overflow("embeddings", embeddings, value)


class RefinementLoss(ReducedLoss, function=refinement_loss):
    """Module version of :func:`refinement_loss`. See there for details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import RefinementLoss
    >>> views = torch.eye(2).unsqueeze(1).expand(2, 2, 2)
    >>> RefinementLoss()(views, torch.tensor([0, 1]))
    tensor(-1.)
    """

    def forward(self, embeddings: Tensor, target: Tensor) -> Tensor:
        """Return the loss of a batch; see :func:`refinement_loss`."""
        return refinement_loss(embeddings, target, **self._arguments())
