"""Attributes of packages and rows of registries that load on use (PEP 562).

The library lazy_loader would take as many lines, and be one more dependency.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from sklearn_calib._missing_packages import explain_missing
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import did_you_mean


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
        with explain_missing(name):
            home = import_module(homes[name])
        return home if homes[name] == f"{package}.{name}" else getattr(home, name)

    return __getattr__, lambda: sorted(homes)


class Registry:
    """Classes of one kind, by the names that users write.

    Parameters
    ----------
    kind : str
        Name of the kind in messages.

    package : str
        Package that contains the classes.

    rows : dict of str to str
        Module and class of each name, such as ``"_focal:FocalLoss"``.

    synonyms : dict of str to str
        Names of the members in other packages, for messages. Those of the classes are
        known.
    """

    def __init__(
        self, kind: str, package: str, rows: dict[str, str], synonyms: dict[str, str]
    ) -> None:
        self.kind, self.package, self.rows = kind, package, rows
        self.synonyms = synonyms

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.rows

    def get(self, name: str) -> Any:
        """Return the class of a name; raise ValueError if the name is unknown."""
        if name not in self:
            classes = {self.class_name(row): row for row in self.rows}
            near = did_you_mean(name, self.rows, {**classes, **self.synonyms})
            raise ValueError(
                f"The name of a {self.kind} must be one of {self.names()}, got "
                f"{shown(name)}.{near}"
            )
        with explain_missing(self.class_name(name)):
            home = import_module(self.home(name))
        return getattr(home, self.class_name(name))

    def home(self, name: str) -> str:
        """Return the module of a name."""
        return f"{self.package}.{self.rows[name].partition(':')[0]}"

    def class_name(self, name: str) -> str:
        """Return the class name of a name."""
        return self.rows[name].partition(":")[2]

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return sorted(self.rows)

    def homes(self) -> dict[str, str]:
        """Return a dict that maps class names to modules."""
        return {self.class_name(name): self.home(name) for name in self.rows}
