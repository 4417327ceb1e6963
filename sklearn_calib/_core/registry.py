"""Classes by name, each loaded when it is first asked for."""

from importlib import import_module
from typing import Any

from sklearn_calib._core.validation import did_you_mean


class Registry:
    """The classes of one kind by the names that users write.

    Parameters
    ----------
    kind : str
        What messages call such a class.

    package : str
        The package that holds the classes.

    rows : dict of str to str
        For each name the module and the class, as in ``"_focal:FocalLoss"``.
    """

    def __init__(self, kind: str, package: str, rows: dict[str, str]) -> None:
        self.kind, self.package, self.rows = kind, package, rows

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.rows

    def get(self, name: str) -> Any:
        """Return the class of a name; raise ValueError for an unknown one."""
        if name not in self:
            raise ValueError(
                f"the name of a {self.kind} must be one of {self.names()}, got "
                f"{name!r}.{did_you_mean(name, self.rows)}"
            )
        return getattr(import_module(self.home(name)), self.class_name(name))

    def home(self, name: str) -> str:
        """Return the module of a name."""
        return f"{self.package}.{self.rows[name].partition(':')[0]}"

    def class_name(self, name: str) -> str:
        """Return what the class of a name is called."""
        return self.rows[name].partition(":")[2]

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return sorted(self.rows)

    def homes(self) -> dict[str, str]:
        """Return the module of each class, by the name of the class."""
        return {self.class_name(name): self.home(name) for name in self.rows}
