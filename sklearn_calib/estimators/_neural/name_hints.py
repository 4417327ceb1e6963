"""Hints for unknown parameters: names of other libraries, and similar names.

skorch and scikit-learn name the unknown parameter, but no parameter to use instead.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from inspect import signature
from typing import Any

import torch
from skorch.callbacks import Callback
from torch import nn
from torch.utils.data import DataLoader

from sklearn_calib.estimators._neural.batches import iterate_batches
from sklearn_calib.estimators._neural.networks import MLP, ConvNet
from sklearn_calib.losses import get_loss, get_loss_names

# Names that other libraries use, and the names of the parameters here.
SYNONYMS = {
    "alpha": "weight_decay",
    "augment": "batch_transform",
    "early_stopping_rounds": "n_iter_no_change",
    "epochs": "max_epochs",
    "eta": "lr",
    "eval_set": "train_split",
    "hidden": "hidden_sizes",
    "hidden_dim": "hidden_sizes",
    "hidden_layer_sizes": "hidden_sizes",
    "hidden_units": "hidden_sizes",
    "learning_rate": "lr",
    "learning_rate_init": "lr",
    "loss_fn": "loss",
    "max_iter": "max_epochs",
    "model": "module",
    "n_epochs": "max_epochs",
    "network": "module",
    "num_epochs": "max_epochs",
    "objective": "loss",
    "patience": "n_iter_no_change",
    "seed": "random_state",
    "smoothing": "label_smoothing",
    "solver": "optimizer",
    "test_size": "validation_fraction",
    "valid_set": "train_split",
    "validation": "train_split",
    "validation_data": "train_split",
    "validation_set": "train_split",
    "validation_split": "validation_fraction",
}
_VALIDATION = ["X_val", "y_val"]  # arguments of fit
# The shape of the data decides which of the default networks is built.
_NAMES_OF_DEFAULTS = {*signature(MLP).parameters, *signature(ConvNet).parameters}


def find_near(name: str, known: Iterable[str]) -> list[str]:
    """Return at most three known names that the user may have meant by another name.

    These are its synonym or else the parameters of components with this name, such as
    ``loss__gamma`` for ``gamma``, or else names that are spelt similarly.
    """
    known, wanted = sorted(known), SYNONYMS.get(name, name)
    if wanted in known:
        return [wanted]
    of_parts = [each for each in known if each.endswith(f"__{wanted}")]
    close = get_close_matches(name, known, cutoff=0.8)  # a typing error
    return of_parts[:3] or close or get_close_matches(name, known)


def hint(name: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """Return " Did you mean 'x' or 'y'?" for the nearest names, or another text."""
    return _suggest(find_near(name, known), otherwise)


def hint_for(name: str, owner: type, own: Iterable[str], prefixes: set[str]) -> str:
    """Return the hint for an unknown parameter of an estimator.

    `own` are its parameters and those of its components, which have the `prefixes`.
    """
    prefix, is_nested, _ = name.partition("__")
    near = find_near(prefix, prefixes) if is_nested else find_near(name, own)
    otherwise = (
        f" The documentation of {owner.__name__} lists the parameters, and those with "
        f"a prefix in {sorted(f'{each}__' for each in prefixes)}."
    )
    return _suggest([f"{each}__" for each in near] if is_nested else near, otherwise)


def hint_for_fit(name: str, known: set[str], net: Any, method: str) -> str:
    """Return the hint for an unknown keyword of fit, perhaps a parameter of the net."""
    if SYNONYMS.get(name) == "train_split":
        return _suggest(["validation"] if method == "partial_fit" else _VALIDATION, "")
    own = net.get_params(deep=False)
    keywords = {*known, "sample_weight", "classes", *_VALIDATION}
    is_own = SYNONYMS.get(name, name) in own
    near = [] if is_own else find_near(name, keywords)
    if near or not (params := find_near(name, own)):
        return _suggest(near, "")
    return f" Set the parameter {params[0]!r} of {type(net).__name__} instead."


def _suggest(near: list[str], otherwise: str) -> str:
    if not near:
        return otherwise
    names = [repr(each) for each in near]
    return f" Did you mean {', '.join([*names[:-2], ' or '.join(names[-2:])])}?"


def names_of_parts(module: Any, optimizer: Any, *, prefix: str = "module") -> set[str]:
    """Return the prefixed parameters of a module, an optimizer and of all losses."""
    parts = [(prefix, module_names(module)), ("optimizer", accepted_names(optimizer))]
    parts += [("loss", accepted_names(get_loss(name))) for name in get_loss_names()]
    parts += [("iterator_train", accepted_names(iterate_batches))]
    return {f"{part}__{name}" for part, names in parts for name in names or ()}


def module_names(module: Any) -> set[str] | None:
    """Return the constructor parameters of a module, None if it accepts any name."""
    if module is None:
        return _NAMES_OF_DEFAULTS
    return accepted_names(type(module) if isinstance(module, nn.Module) else module)


def accepted_names(target: Any) -> set[str] | None:
    """Return the parameter names of a callable or callback, None if it accepts any."""
    if isinstance(target, Callback):
        return {*target.get_params(deep=False)}
    try:
        parameters = signature(target).parameters.values()
    except (TypeError, ValueError):  # implemented in C
        return None
    names = {each.name for each in parameters if each.kind is not each.VAR_KEYWORD}
    if target is iterate_batches:
        return names | {*signature(DataLoader).parameters}
    if len(names) < len(parameters):
        return None
    is_optimizer = isinstance(target, type) and issubclass(
        target, torch.optim.Optimizer
    )
    return names - {"params"} | {"param_groups"} if is_optimizer else names


def check_takes(target: Any, names: Iterable[str], prefix: str) -> None:
    """Raise ValueError for the first name that is not a parameter of the target."""
    if names:  # reading a signature takes longer than all the rest
        _check_among(accepted_names(target), names, prefix, _name(target))


def check_module_takes(module: Any, names: Iterable[str], prefix: str) -> None:
    """Raise ValueError for the first name that the constructor of a module lacks."""
    if not names:
        return
    own = type(module) if isinstance(module, torch.nn.Module) else module
    owner = "The default ConvNet or MLP" if own is None else _name(own)
    _check_among(module_names(own), names, prefix, owner)


def _check_among(
    known: set[str] | None, names: Iterable[str], prefix: str, owner: str
) -> None:
    """Raise ValueError for the first name not among the known ones, None is all."""
    for name in names:
        if known is not None and name.partition("__")[0] not in known:
            raise ValueError(
                f"{owner} has no parameter {name!r}, got {prefix}{name}."
                f"{hint(name, known, otherwise=' See its documentation.')}"
            )


def _name(target: Any) -> str:
    return getattr(target, "__name__", type(target).__name__)
