"""Lazy loading: public names import their module when they are first used (PEP 562)."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: dict[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package with lazy public names.

    Parameters
    ----------
    package : str
        The package's `__name__`.

    homes : dict of str to str
        For each public name, the module that defines it. A subpackage maps to its own
        full name.
    """

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = import_module(homes[name])
        return home if homes[name] == f"{package}.{name}" else getattr(home, name)

    return __getattr__, lambda: sorted(homes)
