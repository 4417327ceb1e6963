"""Laws of objects: parameters, copies, files in memory, and fits that fail.

A law is a function of a recipe for an object. It returns an `Outcome` if it does not
hold, and None otherwise.
"""

import pickle
import re
from copy import deepcopy
from functools import cached_property, partial

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from hostile import arguments, calls, subjects
from hostile.judge import RAW, SILENT, Outcome, are_equal


def written(params):
    """Return parameters as text; objects that are built at each call by their kind.

    A network lists the callbacks that its next fit builds, together with their
    arguments.
    """
    return re.sub(r" at 0x[0-9a-f]+", "", repr(params))


def parameters_are_a_fixed_point(fit):
    for model in (fit.make(), fit.copy()):
        own, before = repr(model.get_params(deep=False)), written(model.get_params())
        model.set_params(**model.get_params())
        after = repr(model.get_params(deep=False)), written(model.get_params())
        if after != (own, before):
            return Outcome(SILENT, "set_params(**get_params()) changed parameters")
    if not are_equal(fit.ask(model), fit.ask(fit.model)):
        return Outcome(SILENT, "set_params(**get_params()) changed predictions")
    return None


def clones_are_equal(fit):
    copy = clone(fit.model)
    if repr(copy.get_params(deep=False)) != repr(fit.model.get_params(deep=False)):
        return Outcome(SILENT, "clone changed parameters")
    if not are_equal(fit.ask(fit(copy)), fit.ask(fit.model)):
        return Outcome(SILENT, "the fitted clone predicts something else")
    return None


def pickles_are_equal(fit):
    if not are_equal(
        fit.ask(pickle.loads(pickle.dumps(fit.model))), fit.ask(fit.model)
    ):
        return Outcome(SILENT, "the pickled model predicts something else")
    return None


def a_failed_fit_changes_nothing(fit, *, spoil):
    """A failed fit leaves the estimator unchanged, or unfitted."""
    model = fit.copy()
    before = fit.ask(model), model.classes_.tolist(), model.predict(fit.X).tolist()
    try:
        spoil(model, fit)
    except Exception:
        pass
    else:
        return None  # the second fit did not fail
    try:
        after = fit.ask(model), model.classes_.tolist(), model.predict(fit.X).tolist()
    except NotFittedError:
        return None
    if not are_equal(before[0], after[0]) or before[1:] != after[1:]:
        return Outcome(SILENT, f"a failed fit left {after[1]} of {before[1]}")
    return None


def _other_labels(model, fit):
    model.fit(fit.X, fit.names, sample_weight=np.full(len(fit.y), -1.0))


def _two_labels(model, fit):
    model.fit(fit.X, fit.y > 0, sample_weight=np.full(len(fit.y), -1.0))


def _other_width(model, fit):
    X = np.hstack([fit.X, fit.X]) / (2 if fit.X.min() >= 0 else 1)
    model.fit(X, fit.names, sample_weight=np.full(len(fit.y), -1.0))


def _no_numbers(model, fit):
    model.fit(np.full_like(fit.X, np.nan), fit.names)


SPOILED = {
    "other labels": _other_labels,
    "two labels": _two_labels,
    "other width": _other_width,
    "NaN": _no_numbers,
}


def a_misspelt_parameter_is_suggested(make):
    """Each parameter name without its second-last letter is rejected."""
    kind = type(make())
    for name in calls.parameters(kind):
        wrong = name[:-2] + name[-1]
        if len(name) < 4 or wrong in calls.parameters(kind):
            continue
        try:
            kind(**{wrong: 1})
        except (TypeError, ValueError) as error:
            if not re.search(f"[Dd]id you mean '{name}'", str(error)):
                return Outcome(RAW, f"no suggestion for {wrong!r}: {error}")
        else:
            return Outcome(SILENT, f"accepted {wrong!r}")
    return None


class Fit:
    """Fit a model to the data of its setting."""

    def __init__(self, make, given):
        self.make, self.X, self.y = make, given["X"], given["y"]
        self.names = np.array(list("zyxw"))[np.ravel(self.y)[: len(self.y)]]

    def __call__(self, model):
        return model.fit(self.X, self.y)

    def ask(self, model):
        return model.predict_proba(self.X)

    @cached_property
    def model(self):
        """The fitted model, which laws only read."""
        return self(self.make())

    def copy(self):
        """Return a fitted model that may be changed."""
        return deepcopy(self.model)


def laws():
    """Return each law of each object as a function without arguments, by name."""
    found = {}
    for name, thing in subjects.public_names().items():
        for setting, _, keywords in calls.recipes(name, thing):
            is_model = setting in ("three", "logits", "fit", "around")
            # Laws of calibrators of groups have tests of their own.
            if is_model and "X" in keywords and "groups" not in keywords:
                found |= _laws_of_a_model(f"{name}[{setting}]", thing, setting)
        if calls.kind_of(name.partition(".")[0], thing) is calls.loss_class:
            law = partial(a_misspelt_parameter_is_suggested, thing)
            found[f"{name}: a misspelt parameter is suggested"] = law
    return found


def _laws_of_a_model(name, kind, setting):
    own, special = calls.parameters(kind), arguments.SPECIAL
    given = arguments.valid(setting) | special.get(name.partition("[")[0], {})
    params = {
        key: given[key]
        for key, parameter in own.items()
        if key in given
        and (
            parameter.default is parameter.empty
            or key in {"from_logits", *arguments.ALWAYS_GIVEN, "coverage"}
            or key in special.get(name.partition("[")[0], {})
        )
    }
    params |= {key: value for key, value in given.items() if calls.is_nested(key)}
    fit = Fit(partial(kind, **params), given)
    found = {
        law.__name__: partial(law, fit)
        for law in (parameters_are_a_fixed_point, clones_are_equal, pickles_are_equal)
    }
    for how, spoil in SPOILED.items():
        law = a_failed_fit_changes_nothing
        found[f"{law.__name__} ({how})"] = partial(law, fit, spoil=spoil)
    return {f"{name}: {law.replace('_', ' ')}": each for law, each in found.items()}
