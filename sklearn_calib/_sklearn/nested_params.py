"""Nested parameters with prefixed names, such as ``loss__base__gamma``.

Those of scikit-learn and skorch belong to objects; a loss is also given by its name.
"""

from collections.abc import Mapping
from typing import Any


def prefix_of(name: str) -> str:
    """Return the part of a name before the first double underscore."""
    return name.partition("__")[0]


def add_prefix(prefix: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with a prefix added to their names."""
    return {f"{prefix}{name}": value for name, value in params.items()}


def remove_prefix(prefix: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters whose names start with a prefix, without the prefix."""
    return {
        name.removeprefix(prefix): value
        for name, value in params.items()
        if name.startswith(prefix)
    }


def replace_params(params: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return `params` updated by `new`, without nested parameters of replaced objects.

    If ``base`` is replaced, parameters ``base__...`` are dropped unless they are in
    `new`.
    """
    changed = tuple(
        f"{name}__"
        for name, value in new.items()
        if name in params and not _is_same(value, params[name])
    )
    kept = {n: value for n, value in params.items() if not n.startswith(changed)}
    return {**kept, **new}


def _is_same(value: Any, other: Any) -> bool:
    return value is other or (isinstance(value, str) and value == other)
