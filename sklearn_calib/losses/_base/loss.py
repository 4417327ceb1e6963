"""Base classes of the losses: torch modules that are built from loss functions."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor, nn

from sklearn_calib._sklearn.nested_params import (
    add_prefix,
    remove_prefix,
    replace_params,
)
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import did_you_mean
from sklearn_calib.losses._base.checks import REDUCTIONS, Reduction, check_choice
from sklearn_calib.losses._base.decorators import check_keywords
from sklearn_calib.losses._base.logit_confidence import (
    LogitConfidence,
    compute_confidence,
)
from sklearn_calib.losses._base.loss_names import LOSSES, get_loss_names

# The prefix of the parameters of a base loss.
BASE = "base__"
# The parameters that a loss sets for its base.
_OF_OWNER = {"reduction", "ignore_index"}

_Init = TypeVar("_Init", bound=Callable[..., None])

# Headings of docstrings.
PARAMETERS = "Parameters\n----------\n"
REFERENCES = "References\n----------\n"
EXAMPLES = "Examples\n--------\n"


def find_loss(loss: Any) -> Any:
    """Return the class with a given name; return a class or an instance unchanged."""
    return LOSSES.get(loss) if isinstance(loss, str) else loss


def _is_known(loss: Any) -> bool:
    """Return whether `loss` is the name, the class or an instance of a loss."""
    if isinstance(loss, str):
        return loss in LOSSES
    return isinstance(loss, nn.Module) or (
        isinstance(loss, type) and issubclass(loss, nn.Module)
    )


def _own_names(loss: Any) -> set[str] | None:
    """Return the parameter names of a loss, or None if any name may be valid."""
    signature = _signature(loss)
    is_open = any(p.kind is p.VAR_KEYWORD for p in signature.values())
    if not _is_known(loss) or (is_open and not _has_base(loss)):
        return None
    return set(signature) - {"base_params"}


def _own_params(loss: Any) -> dict[str, Any]:
    """Return the parameters of a loss with their current values or defaults."""
    if isinstance(loss, CalibrationLoss):
        return loss.get_params(deep=False)
    parameters = _signature(loss).values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def _has_base(loss: Any) -> bool:
    return "base_params" in _signature(loss)


def _signature(loss: Any) -> Mapping[str, inspect.Parameter]:
    """Return the constructor parameters of a loss, none for other module instances."""
    loss = find_loss(loss) if _is_known(loss) else None
    loss = type(loss) if isinstance(loss, CalibrationLoss) else loss
    return _parameters_of(loss) if isinstance(loss, type) else {}


@lru_cache(maxsize=64)
def _parameters_of(cls: type) -> Mapping[str, inspect.Parameter]:
    """Return the constructor parameters of a class."""
    return inspect.signature(cls).parameters


def _loss_name(loss: Any) -> str:
    """Return the name of a loss in error messages."""
    if isinstance(loss, str):
        return repr(loss)
    return loss.__name__ if isinstance(loss, type) else type(loss).__name__


def _checks_keywords(init: _Init) -> _Init:
    """Make a constructor suggest the closest parameter for an unknown keyword."""
    parameters = inspect.signature(init).parameters.values()
    names = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    is_open = any(p.kind is p.VAR_KEYWORD for p in parameters)

    @wraps(init)
    def wrapper(self: Any, *args: Any, **params: Any) -> None:
        if not is_open:
            check_keywords(type(self), [n for n in params if n not in names], names)
        init(self, *args, **params)

    return cast("_Init", wrapper)


class ReducedLoss(nn.Module):
    """Torch module with a reduction and scikit-learn's ``get_params``.

    A subclass has a constructor with the :func:`parameters_of` its function. One with
    other parameters names the function, as in ``class AdaFocalLoss(CalibrationLoss,
    function=adafocal_loss)``. Its docstring is completed from that of the function, see
    :func:`complete_docstring`.
    """

    # For type checkers, which infer Any for a call of a torch module, and a tensor or a
    # module for a parameter.
    __call__: Callable[..., Tensor]
    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    # The keywords of the function that are not arguments of `forward`.
    _keywords: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(
        cls, function: Callable[..., Tensor] | None = None, **kwargs: Any
    ) -> None:
        super().__init_subclass__(**kwargs)
        constructor: Any = vars(cls).get("__init__")
        derived_from = getattr(constructor, "function", None)
        if constructor is not None and derived_from is None:
            cls.__init__ = _checks_keywords(constructor)  # type: ignore[method-assign]
        function = derived_from or function
        if function is not None:
            cls._take_from(function)

    @classmethod
    def _take_from(cls, function: Callable[..., Tensor]) -> None:
        """Take the call, the keywords and the docstring from a function."""
        cls._function = staticmethod(function)  # type: ignore[method-assign]
        taken = inspect.signature(cls.forward).parameters
        cls._keywords = tuple(
            p.name
            for p in inspect.signature(function).parameters.values()
            if p.kind is p.KEYWORD_ONLY and p.name not in taken
        )
        if cls.__doc__ and function.__doc__:  # both are None under python -OO
            cls.__doc__ = complete_docstring(
                inspect.cleandoc(cls.__doc__),
                inspect.cleandoc(function.__doc__),
                inspect.signature(cls).parameters,
            )

    @_checks_keywords
    def __init__(self, *, reduction: Reduction = "mean") -> None:
        super().__init__()
        self.reduction = check_choice("reduction", reduction, REDUCTIONS)

    def _store(
        self,
        params: dict[str, Any],
        base_params: dict[str, Any],  # noqa: ARG002 - for losses with a base
    ) -> None:
        """Store checked parameters in a new object."""
        ReducedLoss.__init__(self, reduction=params["reduction"])
        for name, value in params.items():
            # torch's own method would register a loss as a submodule.
            object.__setattr__(self, name, value)

    @staticmethod
    def _function(*args: Any, **params: Any) -> Tensor:
        raise NotImplementedError(
            "A loss must have a method forward or name its function, as in `class "
            "FocalLoss(CalibrationLoss, function=focal_loss)`."
        )

    def _arguments(self) -> dict[str, Any]:
        """Return the keyword arguments for the function."""
        return {name: getattr(self, name) for name in self._keywords}

    def get_params(
        self,
        deep: bool = True,  # noqa: ARG002 - the signature of scikit-learn
    ) -> dict[str, Any]:
        """Get the parameters of this loss.

        Parameters
        ----------
        deep : bool, default=True
            Ignored, because this loss does not contain another loss.

        Returns
        -------
        params : dict
            Parameter names mapped to their values, in the order of the constructor.
        """
        own: Any = type(self)  # a class that mypy takes for unhashable
        parameters = _parameters_of(own).values()
        names = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        items = self.get_params(deep=False).items()
        parameters = ", ".join(f"{name}={value!r}" for name, value in items)
        return f"{type(self).__name__}({parameters})"


class CalibrationLoss(ReducedLoss):
    """Base class for calibration losses: a torch module with ``get_params``.

    A subclass stores every argument of its constructor unchanged in an attribute of
    the same name, as scikit-learn's estimators do. Then ``repr``, pickling and
    :func:`sklearn.base.clone` work without further code. ``forward`` returns the loss
    of a batch.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}, default="mean"
        Reduction of the losses of the samples: their (weighted) mean, their (weighted)
        sum, or no reduction.

    Notes
    -----
    Logits of shape (N, C, d1, ...) are N * d1 * ... samples, as in
    :func:`torch.nn.functional.cross_entropy`. Targets equal to `ignore_index` change
    neither the loss nor the gradients; if there are no others, the mean is NaN.

    If a logit is NaN, the loss is NaN. If a logit is infinite, the loss is either its
    limit for large logits, or infinite, or NaN.

    Negative, infinite or NaN weights raise an error on the CPU. Values are not checked
    inside `torch.compile` or a transform of `torch.func`, nor on an accelerator,
    because the check would have to wait for it.

    Examples
    --------
    >>> from sklearn.base import clone
    >>> from sklearn_calib.losses import FocalLoss
    >>> clone(FocalLoss(gamma=2.0)).get_params()
    {'gamma': 2.0, 'ignore_index': -100, 'reduction': 'mean'}
    """

    # The loss of a sample or a batch for the overview of all losses, in Markdown with
    # TeX between dollars.
    formula: ClassVar[str]
    # Whether `update` learns from predictions on a validation set.
    learns_from_validation = False
    # The number of updates needed in a training run if each update builds on the
    # previous ones, else 0.
    min_updates = 0
    # Whether the loss of a sample does not depend on the other samples of the batch.
    is_per_sample = True
    # Whether the target may be soft targets instead of class indices.
    takes_probabilities = False
    # Whether `forward` takes the positions of the samples in the training data, whose
    # history is kept by `start_history` and `record`.
    needs_indices = False
    # Whether the forward pass must read values, for example to rank them. If so, meta
    # tensors are not accepted.
    needs_values = False
    # Whether the target has a 0 or a 1 for each logit, instead of one class index.
    is_multilabel = False

    @staticmethod
    def of(module: nn.Module) -> "CalibrationLoss":
        """Return the module if it is a `CalibrationLoss`, else a default one.

        Attributes and methods of the same names in other modules are ignored.

        Parameters
        ----------
        module : torch.nn.Module
            The loss of a network, possibly compiled.

        Returns
        -------
        loss : CalibrationLoss
            The loss itself, or an instance of the base class, whose flags are the
            defaults and whose methods do nothing.
        """
        if not isinstance(module, CalibrationLoss):
            module = getattr(module, "_orig_mod", module)  # set by torch.compile
        return module if isinstance(module, CalibrationLoss) else CalibrationLoss()

    @staticmethod
    def build(
        loss: Any, params: dict[str, Any], *, prefix: str = "", hint: str = ""
    ) -> nn.Module:
        """Return a new instance of a loss, with some parameters replaced.

        Parameters
        ----------
        loss : str, class or instance
            The name of a loss, or a `torch.nn.Module`.
        params : dict
            Parameter names mapped to values. Parameters of a base have a prefix, as in
            ``base__gamma``.
        prefix : str, default=""
            Prefix of the parameter names in error messages.
        hint : str, default=""
            Text at the end of error messages about a wrong name.

        Returns
        -------
        loss : torch.nn.Module
            A new instance. An instance of another torch module is copied.

        Raises
        ------
        TypeError
            If `loss` is not a loss.
        ValueError
            If the loss does not have one of the parameters.
        """
        if not _is_known(found := find_loss(loss)):
            raise TypeError(
                "loss must be a name, a class or an instance of torch.nn.Module, got "
                f"{shown(loss)}. Valid names are: {get_loss_names()}."
            )
        CalibrationLoss.check_params(loss, params, prefix=prefix, hint=hint)
        if isinstance(found, CalibrationLoss):
            return type(found)(**replace_params(found.get_params(deep=False), params))
        return found(**params) if isinstance(found, type) else deepcopy(found)

    @staticmethod
    def list_params(loss: Any, given: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters of a loss and of its base, with some replaced.

        Parameters
        ----------
        loss : str, class or instance
            The name of a loss, or a `torch.nn.Module`.
        given : dict
            Values to replace, by parameter name.

        Returns
        -------
        params : dict
            Parameter names mapped to values. If `loss` is not a loss, a copy of
            `given` is returned.
        """
        if not _is_known(loss):
            return dict(given)
        params = replace_params(_own_params(loss), given)
        if not _has_base(loss):
            return params
        of_base = remove_prefix(BASE, params)
        of_base = CalibrationLoss.list_params(params["base"], of_base)
        of_base = {name: of_base[name] for name in of_base if name not in _OF_OWNER}
        return {**params, **add_prefix(BASE, of_base)}

    @staticmethod
    def check_params(
        loss: Any, given: dict[str, Any], *, prefix: str = "", hint: str = ""
    ) -> None:
        """Raise a ValueError for the first name that is not a parameter of the loss.

        The `reduction` and `ignore_index` of a base cannot be set.

        Parameters
        ----------
        loss : str, class or instance
            The name of a loss, or a `torch.nn.Module`.
        given : dict
            Parameter names mapped to values.
        prefix : str, default=""
            Prefix of the parameter names in the message.
        hint : str, default=""
            Text at the end of the message.
        """
        names = _own_names(loss)
        if names is None:
            return
        of_base = remove_prefix(BASE, given) if _has_base(loss) else {}
        names -= _OF_OWNER if prefix.endswith(BASE) else set()
        for name in given:
            if not (name in names or name.removeprefix(BASE) in of_base):
                raise ValueError(
                    f"Loss {_loss_name(loss)} has no parameter {name!r}, got "
                    f"{prefix}{name}.{did_you_mean(name, names)} Valid parameters are: "
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
        logits : Tensor of shape (N, C, ...)
            Unnormalised log probabilities.
        target : Tensor of shape (N, ...)
            Class indices, or another target that the function of the loss accepts.
        sample_weight : Tensor of shape (N, ...), default=None
            Non-negative sample weights.

        Returns
        -------
        loss : Tensor
            A scalar, or of shape (N, ...) with ``reduction="none"``.
        """
        return self._function(
            logits, target, sample_weight=sample_weight, **self._arguments()
        )

    def _values_and_confidence(
        self, logits: Tensor, target: Tensor, confidence: LogitConfidence
    ) -> tuple[Tensor, Tensor]:
        """Return the loss and the confidence of each sample."""
        return self(logits, target), compute_confidence(confidence, logits)

    def start_epoch(self) -> None:
        """Prepare for an epoch of training. By default this does nothing."""

    def update(
        self,
        y_true: ArrayLike,  # noqa: ARG002 - nothing is learned
        y_proba: ArrayLike,  # noqa: ARG002 - nothing is learned
        *,
        sample_weight: ArrayLike | None = None,  # noqa: ARG002 - nothing is learned
    ) -> dict[str, Any]:
        """Learn from predictions on the validation set. By default this does nothing.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Class indices.
        y_proba : array-like of shape (n_samples, n_classes)
            Predicted probabilities.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative sample weights.

        Returns
        -------
        record : dict
            Values by name, which are added to the history of the epoch. Empty by
            default.
        """
        return {}

    def start_history(self, n_samples: int) -> None:
        """Start a history of the training data. By default this does nothing.

        Parameters
        ----------
        n_samples : int
            Number of training samples.
        """

    def record(self, logits: Tensor, target: Tensor, *, indices: Tensor) -> None:
        """Add the outputs for a batch to the history. By default this does nothing.

        Parameters
        ----------
        logits : Tensor of shape (N, C, ...)
            Unnormalised log probabilities.
        target : Tensor of shape (N, ...)
            Class indices.
        indices : Tensor of shape (N, ...)
            Positions of the samples in the training data.
        """

    def posterior(self, proba: ArrayLike) -> np.ndarray:
        """Return the class posterior for which `proba` minimises the expected loss.

        Parameters
        ----------
        proba : ndarray of shape (n_samples, n_classes)
            Softmax outputs of a network that minimises the expected loss.

        Returns
        -------
        posterior : ndarray of shape (n_samples, n_classes)
            True class probabilities, with the classes in the same order.

        Raises
        ------
        NotImplementedError
            By default, because the map from `proba` to the posterior is known only for
            some losses.
        """
        raise NotImplementedError(
            f"The map from the minimiser of {type(self).__name__} to the posterior is "
            "not known. Calibrate the predictions instead."
        )


def complete_docstring(own: str, function: str, names: Iterable[str]) -> str:
    """Return the docstring of a class, completed from that of its function.

    The summary, the descriptions of the parameters in `names` and the references come
    from the docstring of the function. A class docstring that has a Parameters section
    is returned unchanged. Both docstrings are given without indentation.
    """
    if PARAMETERS in own:
        return own
    described = function.partition(PARAMETERS)[2].partition("\n\nReturns\n")[0]
    parameters, is_own = PARAMETERS, False
    for line in described.splitlines(keepends=True):
        if not line[0].isspace():
            is_own = line.partition(" :")[0].strip("*") in names
        parameters += line if is_own else ""
    references = "".join(function.partition(REFERENCES)[1:]).partition(EXAMPLES)[0]
    summary = function.partition("\n")[0]
    text = own.partition("\n---")[0].rpartition("\n\n")[0]
    sections = own.removeprefix(text).replace(EXAMPLES, references + EXAMPLES)
    return "\n\n".join([summary, text, parameters.rstrip() + sections])
