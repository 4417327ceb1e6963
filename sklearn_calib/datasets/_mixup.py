"""Mixup: training on convex combinations of pairs of samples."""

from dataclasses import dataclass
from numbers import Real

import torch
from torch import Tensor

from sklearn_calib.datasets._tensors import check_tensors

# Below, torch draws 0.5 where both of the numbers that it divides underflow.
SMALLEST_ALPHA = 0.01


@dataclass
class Mixup:
    """Mix each batch with itself in another order, inputs and labels alike.

    For ``NeuralClassifier(batch_transform=Mixup())``. A sample becomes
    ``share * x_i + (1 - share) * x_j`` and its target, from then on probabilities,
    ``share * y_i + (1 - share) * y_j`` [1]_. The network sees fewer labels that it
    could be certain of, and grows less overconfident [2]_. The share is drawn for each
    batch from the distribution Beta(alpha, alpha).

    All losses of single samples take such targets, and so do the penalties on them that
    do not ask which predictions are right, such as MDCA.

    Parameters
    ----------
    alpha : float, default=0.2
        At least 0.01. The smaller, the closer are most of the mixed samples to one of
        the two; 1 draws the share uniformly. The values in [2]_ are 0.1 to 0.4.

    Raises
    ------
    TypeError
        If alpha is no number, when the first batch is mixed.

    ValueError
        If alpha is not at least 0.01 and finite, when the first batch is mixed.

    References
    ----------
    .. [1] H. Zhang, M. Cisse, Y. N. Dauphin and D. Lopez-Paz, "mixup: Beyond Empirical
       Risk Minimization", ICLR 2018, equation 2.
    .. [2] S. Thulasidasan, G. Chennupati, J. Bilmes, T. Bhattacharya and S. Michalak,
       "On Mixup Training: Improved Calibration and Predictive Uncertainty for Deep
       Neural Networks", NeurIPS 2019.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.datasets import Mixup
    >>> X, target, _ = Mixup(alpha=0.4)(torch.randn(5, 3), torch.eye(5))
    >>> X.shape, target.shape
    (torch.Size([5, 3]), torch.Size([5, 5]))
    """

    alpha: float = 0.2

    def __call__(
        self, X: Tensor, target: Tensor, sample_weight: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the mixed batch.

        Parameters
        ----------
        X : Tensor of shape (N, ...)
            Inputs, floating point.

        target : Tensor of shape (N, C)
            Probabilities; of a label one 1 and zeros.

        sample_weight : Tensor of shape (N,), default=None
            Non-negative weights. The labels of a mixed sample count in proportion to
            their weights, and it weighs what they weigh together.

        Returns
        -------
        X : Tensor of shape (N, ...)
            Mixed inputs.

        target : Tensor of shape (N, C)
            Mixed probabilities.

        sample_weight : Tensor of shape (N,) or None
            Mixed weights.
        """
        self._check_alpha()
        check_tensors(X=X, target=target)
        alpha = torch.tensor(float(self.alpha))
        share = torch.distributions.Beta(alpha, alpha).sample().item()
        order = torch.randperm(len(X), device=X.device)

        def mix(values: Tensor) -> Tensor:
            return torch.lerp(values[order], values, share)

        if sample_weight is None:
            return mix(X), mix(target), None
        weight = mix(sample_weight)
        weighted = mix(target * sample_weight.unsqueeze(1)) / weight.unsqueeze(1)
        # 0 / 0 where neither sample counts.
        target = torch.where(weight.unsqueeze(1) > 0, weighted, mix(target))
        return mix(X), target, weight

    def _check_alpha(self) -> None:
        """Raise an error unless alpha is a positive number."""
        if not isinstance(self.alpha, Real) or isinstance(self.alpha, bool):
            raise TypeError(
                f"alpha must be a number > 0, got {self.alpha!r} of type "
                f"{type(self.alpha).__name__}. The default is 0.2."
            )
        if not 0 < self.alpha < float("inf"):
            raise ValueError(
                f"alpha must be > 0 and finite, got {self.alpha!r}. The default is 0.2."
            )
        if self.alpha < SMALLEST_ALPHA:
            raise ValueError(
                f"alpha must be at least {SMALLEST_ALPHA}, got {self.alpha!r}: below, "
                "both samples would often count the same, and not one alone. Train "
                "without Mixup, to which small values come close."
            )
