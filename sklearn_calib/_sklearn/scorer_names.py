"""Registration of scorer names with scikit-learn."""

import sys
from typing import Any

import sklearn
from sklearn.metrics import _scorer
from sklearn.utils._param_validation import StrOptions

CONSTRAINTS = ("_parameter_constraints", "_skl_parameter_constraints")


def register_scorers(scorers: dict[str, Any]) -> None:
    """Register scorers under names that scikit-learn's `scoring` parameters accept.

    The parameter validation of scikit-learn copies the names when a module is loaded.
    The copies in loaded modules are extended here; modules that are loaded later copy
    the names from scikit-learn's table. Existing names are not changed, and the
    function can be called repeatedly.

    Raises
    ------
    RuntimeError
        If scikit-learn does not store the names where versions up to 1.9 do.
    """
    table = getattr(_scorer, "_SCORERS", None)
    copies = _copies_of_the_names()
    if not isinstance(table, dict) or not copies:
        raise RuntimeError(
            f"Names of scorers cannot be added to scikit-learn {sklearn.__version__}, "
            "which does not store them where scikit-learn 1.6 to 1.9 does. Pass "
            'scoring=sklearn_calib.metrics.get_scorer("neg_ece") instead of a name, '
            "or upgrade sklearn-calib."
        )
    for name, scorer in scorers.items():
        table.setdefault(name, scorer)
    for copy in copies:
        copy.options.update(scorers)


def _copies_of_the_names() -> list[Any]:
    """Return the option sets of all `scoring` parameters in loaded modules."""
    modules = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("sklearn.")
    ]
    owners = {id(thing): thing for one in modules for thing in vars(one).values()}
    return [
        constraint
        for owner in owners.values()
        for attribute in CONSTRAINTS
        for constraint in _scoring_constraints(getattr(owner, attribute, None))
        if isinstance(constraint, StrOptions)
    ]


def _scoring_constraints(constraints: Any) -> list[Any]:
    """Return the constraints of the parameter `scoring`, empty if there is none."""
    found = constraints.get("scoring", []) if isinstance(constraints, dict) else []
    return found if isinstance(found, list) else []
