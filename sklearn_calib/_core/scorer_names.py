"""Registration of scorer names with scikit-learn."""

import sys

import sklearn
from sklearn.metrics import _scorer
from sklearn.utils._param_validation import StrOptions

CONSTRAINTS = ("_parameter_constraints", "_skl_parameter_constraints")


def register_scorers(scorers):
    """Let scikit-learn's `scoring` parameters take the names of scorers.

    Its validation of parameters holds copies of the names, made when a module was
    loaded: the copies in loaded modules are extended here, those in modules that are
    loaded later take the names from scikit-learn's own table. A name that is already
    there is left as it is. Calling this again does no harm.

    Raises
    ------
    RuntimeError
        If scikit-learn does not keep the names where it did up to version 1.9.
    """
    table = getattr(_scorer, "_SCORERS", None)
    copies = _copies_of_the_names()
    if not isinstance(table, dict) or not copies:
        raise RuntimeError(
            "The names of scorers must be where scikit-learn 1.6 to 1.9 keeps them, "
            f"got scikit-learn {sklearn.__version__}, which keeps them elsewhere. "
            'Pass scoring=sklearn_calib.metrics.get_scorer("neg_ece") instead of a '
            "name, or upgrade sklearn-calib."
        )
    for name, scorer in scorers.items():
        table.setdefault(name, scorer)
    for copy in copies:
        copy.options.update(scorers)


def _copies_of_the_names():
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


def _scoring_constraints(constraints):
    """Return what may be passed as `scoring`; there are dicts without it."""
    found = constraints.get("scoring", []) if isinstance(constraints, dict) else []
    return found if isinstance(found, list) else []
