"""Mixup: training on convex combinations of pairs of samples."""

from dataclasses import dataclass
from numbers import Real

import torch
from torch import Tensor

from sklearn_calib._validation.arrays import shown
from sklearn_calib.datasets._tensors import check_tensors

# For smaller values, both gamma variates of torch's Beta sampler may underflow, which
# gives 0.5.
SMALLEST_ALPHA = 0.01


@dataclass
class Mixup:
    """Mixup: train on convex combinations of pairs of samples and their labels.

    Use it as ``NeuralClassifier(batch_transform=Mixup())``. Each batch is mixed with a
    random permutation of itself: a sample becomes ``lam * x_i + (1 - lam) * x_j``, and
    its label becomes the soft target ``lam * y_i + (1 - lam) * y_j`` [1]_. The mixing
    coefficient `lam` is drawn from Beta(alpha, alpha) once for each batch. Networks
    that are trained with mixup are less overconfident [2]_.

    All per-sample losses support soft targets. So do penalties, such as MDCA, that do
    not depend on which predictions are correct.

    Parameters
    ----------
    alpha : float, default=0.2
        Parameter of the Beta distribution, at least 0.01. For small values, most mixed
        samples are close to one of the two samples. With 1, `lam` is uniform in [0, 1].
        [2]_ uses 0.1 to 0.4.

    Raises
    ------
    TypeError
        If `alpha` is not a number. Raised when the first batch is mixed.

    ValueError
        If `alpha` is less than 0.01 or infinite. Raised when the first batch is mixed.

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
            Floating-point inputs.

        target : Tensor of shape (N, C)
            Class probabilities, or one-hot encoded labels.

        sample_weight : Tensor of shape (N,), default=None
            Non-negative weights. They are mixed like the inputs, and the two labels of
            a mixed sample are weighted accordingly.

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
        lam = torch.distributions.Beta(alpha, alpha).sample().item()
        order = torch.randperm(len(X), device=X.device)

        def mix(values: Tensor) -> Tensor:
            return torch.lerp(values[order], values, lam)

        if sample_weight is None:
            return mix(X), mix(target), None
        weight = mix(sample_weight)
        weighted = mix(target * sample_weight.unsqueeze(1)) / weight.unsqueeze(1)
        # If both weights are zero, the weighted target is 0 / 0.
        target = torch.where(weight.unsqueeze(1) > 0, weighted, mix(target))
        return mix(X), target, weight

    def _check_alpha(self) -> None:
        """Raise an error unless alpha is a valid parameter of the Beta distribution."""
        if not isinstance(self.alpha, Real) or isinstance(self.alpha, bool):
            raise TypeError(
                f"alpha must be a number > 0, got {shown(self.alpha)} of type "
                f"{type(self.alpha).__name__}. The default is 0.2."
            )
        if not 0 < self.alpha < float("inf"):
            raise ValueError(
                f"alpha must be > 0 and finite, got {self.alpha!r}. The default is 0.2."
            )
        if self.alpha < SMALLEST_ALPHA:
            raise ValueError(
                f"alpha must be at least {SMALLEST_ALPHA}, got {self.alpha!r}, as the "
                "Beta distribution cannot be sampled for smaller values. Train without "
                "Mixup, which is nearly the same."
            )
