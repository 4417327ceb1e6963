"""The base class of all losses: its parameters, and what a loss declares."""

import inspect
from copy import deepcopy
from functools import wraps

from torch import Tensor, nn

from sklearn_calib._core.nested_params import add_prefix, remove_prefix, replace_params
from sklearn_calib._core.validation import did_you_mean
from sklearn_calib.losses._base import REDUCTIONS, check_choice
from sklearn_calib.losses._registry import LOSSES, get_loss_names

# What stands before the names of a base's parameters.
BASE = "base__"


def _knows_keywords(init):
    """Let a constructor answer an unknown keyword with the closest of its own."""
    parameters = inspect.signature(init).parameters.values()
    names = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    is_open = any(p.kind is p.VAR_KEYWORD for p in parameters)

    @wraps(init)
    def wrapper(self, *args, **params):
        for name in () if is_open else params.keys() - names:
            raise TypeError(
                f"{type(self).__name__} got an unexpected keyword argument {name!r}."
                f"{did_you_mean(name, names)} Its parameters: {sorted(names)}."
            )
        init(self, *args, **params)

    return wrapper


class ReducedLoss(nn.Module):
    """A torch module with a reduction and scikit-learn's ``get_params``."""

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = _knows_keywords(cls.__init__)

    @_knows_keywords
    def __init__(self, *, reduction="mean"):
        super().__init__()
        self.reduction = check_choice("reduction", reduction, REDUCTIONS)

    def get_params(self, deep=True):  # noqa: ARG002 - the signature of scikit-learn
        """Return the arguments of the constructor and their values.

        Parameters
        ----------
        deep : bool, default=True
            No difference: there is no base whose parameters could be listed.

        Returns
        -------
        params : dict
            Values by name, in the order of the constructor.
        """
        parameters = inspect.signature(type(self)).parameters.values()
        names = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
        return {name: getattr(self, name) for name in names}

    def __repr__(self):
        items = self.get_params(deep=False).items()
        parameters = ", ".join(f"{name}={value!r}" for name, value in items)
        return f"{type(self).__name__}({parameters})"


class CalibrationLoss(ReducedLoss):
    """Base class of all losses: a torch module with scikit-learn's ``get_params``.

    A subclass stores every argument of its constructor, unchanged, under the name of
    the argument, and its ``forward`` hands them to the function that it wraps. Then
    ``repr``, pickling and :func:`sklearn.base.clone` work with nothing else to write.

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
    def of(module):
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
    def build(loss, params, *, prefix="", hint=""):
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
    def list_params(loss, given):
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
            Values by name; of what is no loss those that are given.
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
    def check_params(loss, given, *, prefix="", hint=""):
        """Raise ValueError for the first of `given` that is no parameter of the loss.

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

    def start_epoch(self):
        """Prepare for an epoch of training. By default nothing happens."""

    def update(self, y_true, y_proba, *, sample_weight=None):  # noqa: ARG002 - a no-op
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

    def start_history(self, n_samples):
        """Begin a history of the training data. By default nothing happens.

        Parameters
        ----------
        n_samples : int
            Number of samples of the training data.
        """

    def record(self, logits: Tensor, target: Tensor, *, indices: Tensor):
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

    def posterior(self, proba):
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


def find_loss(loss):
    """Return the class of a name, and a class or an instance as it is."""
    return LOSSES.get(loss) if isinstance(loss, str) else loss


def _is_known(loss):
    """Tell whether something is the name, the class or an instance of a loss."""
    if isinstance(loss, str):
        return loss in LOSSES
    return isinstance(loss, nn.Module) or (
        isinstance(loss, type) and issubclass(loss, nn.Module)
    )


def _own_names(loss):
    """Return the names of a loss's own parameters, None if any name may be one."""
    signature = _signature(loss)
    is_open = any(each.kind is each.VAR_KEYWORD for each in signature.values())
    if not _is_known(loss) or (is_open and not _has_base(loss)):
        return None
    return set(signature) - {"base_params"}


def _own_params(loss):
    """Return the parameters of a loss with the values it has, or else its defaults."""
    if isinstance(loss, CalibrationLoss):
        return loss.get_params(deep=False)
    parameters = _signature(loss).values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def _has_base(loss):
    return "base_params" in _signature(loss)


def _signature(loss):
    """Return the constructor's parameters of a loss; of an instance of torch none."""
    loss = find_loss(loss) if _is_known(loss) else None
    loss = type(loss) if isinstance(loss, CalibrationLoss) else loss
    return inspect.signature(loss).parameters if isinstance(loss, type) else {}


def _loss_name(loss):
    """Return what a message calls a loss."""
    if isinstance(loss, str):
        return repr(loss)
    return loss.__name__ if isinstance(loss, type) else type(loss).__name__
