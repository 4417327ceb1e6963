"""The base class of all losses: what a loss declares, and what it can do."""

import inspect
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor, nn

from sklearn_calib._core.nested_params import add_prefix, remove_prefix, replace_params
from sklearn_calib._core.validation import did_you_mean
from sklearn_calib.losses._confidence import compute_confidence
from sklearn_calib.losses._reduced_loss import ReducedLoss
from sklearn_calib.losses._registry import LOSSES, get_loss_names
from sklearn_calib.losses._typing import Confidence

# What stands before the names of a base's parameters.
BASE = "base__"


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
    # How many updates a training needs if each builds on those before, else 0.
    min_updates = 0
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

    @staticmethod
    def build(
        loss: Any, params: dict[str, Any], *, prefix: str = "", hint: str = ""
    ) -> nn.Module:
        """Return a new instance of any loss, with `params` in place of its own values.

        Parameters
        ----------
        loss : str, class or instance
            The name of a loss, or a `torch.nn.Module`.
        params : dict
            Values by name, those of a base as ``base__gamma``.
        prefix : str, default=""
            What messages put before the names of parameters.
        hint : str, default=""
            How messages about a wrong name end.

        Returns
        -------
        loss : torch.nn.Module
            An instance of torch is copied.

        Raises
        ------
        TypeError
            If `loss` is not a loss.
        ValueError
            If the loss has no parameter of one of the names.
        """
        if not _is_known(found := find_loss(loss)):
            raise TypeError(
                "loss must be a name, a class or an instance of torch.nn.Module, got "
                f"{loss!r}. The names: {get_loss_names()}."
            )
        CalibrationLoss.check_params(loss, params, prefix=prefix, hint=hint)
        if isinstance(found, CalibrationLoss):
            return type(found)(**replace_params(found.get_params(deep=False), params))
        return found(**params) if isinstance(found, type) else deepcopy(found)

    @staticmethod
    def list_params(loss: Any, given: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters of any loss and of its base, with `given` in place.

        Parameters
        ----------
        loss : str, class or instance
            The name of a loss, or a `torch.nn.Module`.
        given : dict
            Values by name.

        Returns
        -------
        params : dict
            Values by name. If `loss` is not a loss, `given` is returned.
        """
        if not _is_known(loss):
            return dict(given)
        params = replace_params(_own_params(loss), given)
        if not _has_base(loss):
            return params
        of_base = remove_prefix(BASE, params)
        of_base = CalibrationLoss.list_params(params["base"], of_base)
        of_base.pop("reduction", None)
        return {**params, **add_prefix(BASE, of_base)}

    @staticmethod
    def check_params(
        loss: Any, given: dict[str, Any], *, prefix: str = "", hint: str = ""
    ) -> None:
        """Raise ValueError for the first name that is not a parameter of the loss.

        A base has no reduction.

        Parameters
        ----------
        loss : str, class or instance
            The name of a loss, or a `torch.nn.Module`.
        given : dict
            Values by name.
        prefix : str, default=""
            What stood before the names.
        hint : str, default=""
            How the message ends.
        """
        names = _own_names(loss)
        if names is None:
            return
        of_base = remove_prefix(BASE, given) if _has_base(loss) else {}
        names -= {"reduction"} if prefix.endswith(BASE) else set()
        for name in given:
            if not (name in names or name.removeprefix(BASE) in of_base):
                raise ValueError(
                    f"Loss {_loss_name(loss)} has no parameter {name!r}, got "
                    f"{prefix}{name}.{did_you_mean(name, names)} Its parameters: "
                    f"{sorted(names)}.{hint}"
                )
        if of_base:
            base = {**_own_params(loss), **given}["base"]
            CalibrationLoss.check_params(base, of_base, prefix=prefix + BASE, hint=hint)

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
        y_proba: ArrayLike,  # noqa: ARG002 - nothing is learned
        *,
        sample_weight: ArrayLike | None = None,  # noqa: ARG002 - nothing is learned
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


def find_loss(loss: Any) -> Any:
    """Return the class of a name, and a class or an instance as it is."""
    return LOSSES.get(loss) if isinstance(loss, str) else loss


def _is_known(loss: Any) -> bool:
    """Tell whether something is the name, the class or an instance of a loss."""
    if isinstance(loss, str):
        return loss in LOSSES
    return isinstance(loss, nn.Module) or (
        isinstance(loss, type) and issubclass(loss, nn.Module)
    )


def _own_names(loss: Any) -> set[str] | None:
    """Return the names of a loss's own parameters, None if any name may be one."""
    signature = _signature(loss)
    is_open = any(each.kind is each.VAR_KEYWORD for each in signature.values())
    if not _is_known(loss) or (is_open and not _has_base(loss)):
        return None
    return set(signature) - {"base_params"}


def _own_params(loss: Any) -> dict[str, Any]:
    """Return the parameters of a loss with the values it has, or else its defaults."""
    if isinstance(loss, CalibrationLoss):
        return loss.get_params(deep=False)
    parameters = _signature(loss).values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def _has_base(loss: Any) -> bool:
    return "base_params" in _signature(loss)


def _signature(loss: Any) -> Mapping[str, inspect.Parameter]:
    """Return the constructor's parameters of a loss; of an instance of torch none."""
    loss = find_loss(loss) if _is_known(loss) else None
    loss = type(loss) if isinstance(loss, CalibrationLoss) else loss
    return inspect.signature(loss).parameters if isinstance(loss, type) else {}


def _loss_name(loss: Any) -> str:
    """Return what a message calls a loss."""
    if isinstance(loss, str):
        return repr(loss)
    return loss.__name__ if isinstance(loss, type) else type(loss).__name__
