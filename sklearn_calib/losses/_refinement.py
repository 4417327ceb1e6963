"""Refinement loss: the nearest of the own class against the nearest of the others."""

import torch
from torch import Tensor

from sklearn_calib.losses._base import REDUCTIONS, check_choice
from sklearn_calib.losses._embeddings import (
    flatten_views,
    reduce_anchors,
    same_label,
    similarities,
    within_range,
)
from sklearn_calib.losses._reduced_loss import ReducedLoss
from sklearn_calib.losses._typing import Reduction


def refinement_loss(
    embeddings: Tensor, target: Tensor, *, reduction: Reduction = "mean"
) -> Tensor:
    r"""How much nearer the nearest of another class is than that of the own one.

    Negative where the nearest neighbour of a sample has its label, positive where it
    has another. The smaller the better: for embeddings of length 1 it is in [-2, 2].
    It takes embeddings where the losses with names take logits.

    Parameters
    ----------
    embeddings : Tensor of shape (N, views, d) or (N, d)
        Embeddings of length 1: they are not normalised here.
    target : Tensor of shape (N,)
        Labels, integers.
    reduction : {"mean", "sum", "none"}, default="mean"
        What to return: the mean over the anchors, their sum as in the paper, or one
        loss for each.

    Returns
    -------
    loss : Tensor
        A scalar, or with ``reduction="none"`` of the shape of `embeddings` without its
        last dimension.

    Raises
    ------
    ValueError
        If `reduction` is not one of the three or the shapes do not match.
    TypeError
        If the embeddings or the labels are of the wrong type.

    See Also
    --------
    RefinementLoss : The same as a module.
    supcon_loss : The smooth upper bound that is minimised in its place.

    Notes
    -----
    The loss of anchor i is

    .. math::
        \min_{p \in P_i} \tfrac{1}{2} \|z_i - z_p\|^2
        - \min_{n \in N_i} \tfrac{1}{2} \|z_i - z_n\|^2,

    with :math:`P_i` all others of its label and :math:`N_i` those of another. As
    printed [1]_ :math:`P_i` holds the anchor as well: then the first minimum would be 0
    always, and so the anchor is left out, of equation 4 too. An anchor without a
    positive or without a negative in the batch does not count.

    For embeddings of length 1 and temperatures up to 1, :func:`supcon_loss` is greater
    for each anchor, as [1]_ has it. Above it need not be: the more the temperature
    evens out the softmax, the nearer is SupCon to the logarithm of the number of
    candidates, while this loss can be 2. With ``temperature=10`` the anchor (1, 0)
    between a positive at (-1, 0) and a negative at (1, 0) has 0.80.

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
        scaled, _ = within_range(rows)
        squares = scaled.square().sum(1)
        distance = squares.unsqueeze(1) + squares - 2 * similarities(scaled)
        nearest = [_nearest(distance, among, anchors) for among in (positive, negative)]
    to_positive, to_negative = (
        0.5 * (rows[anchors] - rows[index]).square().sum(1) for index in nearest
    )
    values = to_positive - to_negative
    return reduce_anchors(values, anchors, embeddings.shape[:-1], reduction)


def _nearest(distance: Tensor, among: Tensor, anchors: Tensor) -> Tensor:
    """Return for each anchor the index of the nearest row among those it may have."""
    return distance.masked_fill(~among, float("inf"))[anchors].argmin(1)


class RefinementLoss(ReducedLoss, function=refinement_loss):
    """The module of :func:`refinement_loss`, which has the details.

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
