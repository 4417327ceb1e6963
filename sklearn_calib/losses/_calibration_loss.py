"""The base class of all losses: what a loss declares, and what it can do."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor, nn

from sklearn_calib.losses._confidence import compute_confidence
from sklearn_calib.losses._reduced_loss import ReducedLoss
from sklearn_calib.losses._typing import Confidence


class CalibrationLoss(ReducedLoss):
    """Base class of all losses: a torch module with scikit-learn's ``get_params``.

    A subclass stores every argument of its constructor, unchanged, under the name of
    the argument. Then ``repr``, pickling and :func:`sklearn.base.clone` work with
    nothing else to write. Its ``forward`` returns the loss of a batch.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}, default="mean"
        How the losses of the samples become the loss of the batch: their (weighted)
        mean, their (weighted) sum, or no reduction.

    Notes
    -----
    The loss is NaN if a logit is. With an infinite logit it is its limit for large
    logits, infinite or NaN. Negative, infinite and NaN weights are refused on the CPU;
    where a check would have to wait for an accelerator, or run inside `torch.compile`
    or a transform of `torch.func`, values are not checked.

    Examples
    --------
    >>> from sklearn.base import clone
    >>> from sklearn_calib.losses import FocalLoss
    >>> clone(FocalLoss(gamma=2.0)).get_params()
    {'gamma': 2.0, 'reduction': 'mean'}
    """

    # The loss of a sample or a batch, as the overview of all losses shows it.
    formula: ClassVar[str]
    # Whether `update` learns from predictions for a validation set.
    learns_from_validation = False
    # Whether the loss of a sample is the same in any batch.
    is_per_sample = True
    # Whether the target may be probabilities instead of class indices.
    takes_probabilities = False
    # Whether forward takes the positions of the samples in the training data, and
    # `start_history` and `record` keep a history of them.
    needs_indices = False
    # Whether a forward pass reads values, to rank or to search, and not only computes
    # with them: then torch.compile cannot make one graph of it, nor a meta tensor do.
    needs_values = False
    # Whether the target has a 0 or a 1 for each logit, instead of one class.
    is_multilabel = False

    @staticmethod
    def of(module: nn.Module) -> "CalibrationLoss":
        """Return a module that is a `CalibrationLoss`, or else one with the defaults.

        A class of the user's that has methods of the same names is not asked.

        Parameters
        ----------
        module : torch.nn.Module
            The loss of a network, as it is or compiled.

        Returns
        -------
        loss : CalibrationLoss
            The loss itself, or one that declares and does nothing.
        """
        module = getattr(module, "_orig_mod", module)  # where torch.compile keeps it
        return module if isinstance(module, CalibrationLoss) else CalibrationLoss()

    def forward(
        self, logits: Tensor, target: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        """Return the loss of a batch.

        Parameters
        ----------
        logits : Tensor of shape (N, C)
            Unnormalised log probabilities.
        target : Tensor of shape (N,)
            Class indices, or what else the function of the loss takes.
        sample_weight : Tensor of shape (N,), default=None
            Non-negative weights.

        Returns
        -------
        loss : Tensor
            A scalar, or of shape (N,) with ``reduction="none"``.
        """
        return self._function(
            logits, target, sample_weight=sample_weight, **self._arguments()
        )

    def _values_and_confidence(
        self, logits: Tensor, target: Tensor, confidence: Confidence
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of each sample, as of a base, and its confidence."""
        return self(logits, target), compute_confidence(confidence, logits)

    def start_epoch(self) -> None:
        """Prepare for an epoch of training. By default nothing happens."""

    def update(
        self,
        y_true: ArrayLike,  # noqa: ARG002 - nothing is learned
        y_proba: ArrayLike,  # noqa: ARG002
        *,
        sample_weight: ArrayLike | None = None,  # noqa: ARG002
    ) -> dict[str, Any]:
        """Learn from predictions for the validation set, if the loss does.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Class indices.
        y_proba : array-like of shape (n_samples, n_classes)
            Predicted probabilities.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights.

        Returns
        -------
        record : dict
            Values for the history of the epoch, by name. By default there are none.
        """
        return {}

    def start_history(self, n_samples: int) -> None:
        """Begin a history of the training data. By default nothing happens.

        Parameters
        ----------
        n_samples : int
            Number of samples of the training data.
        """

    def record(self, logits: Tensor, target: Tensor, *, indices: Tensor) -> None:
        """Add the outputs for a batch to the history. By default nothing happens.

        Parameters
        ----------
        logits : Tensor of shape (N, C)
            Unnormalised log probabilities.
        target : Tensor of shape (N,)
            Class indices.
        indices : Tensor of shape (N,)
            Positions of the samples in the training data.
        """

    def posterior(self, proba: ArrayLike) -> np.ndarray:
        """Return the class posterior that belongs to a network's probabilities.

        Parameters
        ----------
        proba : ndarray of shape (n_samples, n_classes)
            Softmax of the logits of a network that minimises the loss.

        Returns
        -------
        posterior : ndarray of shape (n_samples, n_classes)

        Raises
        ------
        NotImplementedError
            If no such map is known, as by default.
        """
        raise NotImplementedError(
            f"{type(self).__name__} is not known to determine the posterior."
        )
