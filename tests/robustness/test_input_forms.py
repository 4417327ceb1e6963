"""Every public name takes the usual forms of arrays, and names what is wrong.

The calls are those of `tools/record_values.py`: whatever is added to an `__all__` is
tried without a line here. `tests/losses/test_bad_input.py` does the same for tensors.
"""

import importlib.util
import re
import traceback
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "record_values.py"


def every_other(array):
    return np.repeat(array, 2, axis=0)[::2]


def read_only(array):
    array = array.copy()
    array.setflags(write=False)
    return array


def frame(array):
    return pd.DataFrame(array) if array.ndim == 2 else pd.Series(array)


def second(array, value, dtype=None):
    """Return a copy with another value in the second row."""
    array = array.astype(dtype or array.dtype)
    array[(1,) + (0,) * (array.ndim - 1)] = value
    return array


# Forms with the same result, and faults, of arguments of each kind.
ARRAY = {
    "list": np.ndarray.tolist,
    "every other": every_other,
    "read-only": read_only,
    "objects": lambda a: a.astype(object),
}
FAULTY_ARRAY = {
    "nothing": lambda _: None,
    "short": lambda a: a[:-1],
    "empty": lambda a: a[:0],
    "None inside": lambda a: second(a, None, object),
}
FAULTY_NUMBERS = {
    "NaN": lambda a: second(a, np.nan),
    "text": lambda a: second(a, "many", object),
}
KINDS = {
    "scores": (
        {**ARRAY, "frame": frame, "Fortran": np.asfortranarray},
        {**FAULTY_ARRAY, **FAULTY_NUMBERS},
    ),
    "labels": (
        {**ARRAY, "series": pd.Series, "categories": pd.Categorical},
        FAULTY_ARRAY,
    ),
    "weights": (
        {**ARRAY, "series": pd.Series},
        {
            **{name: f for name, f in FAULTY_ARRAY.items() if name != "nothing"},
            **FAULTY_NUMBERS,
            "infinity": lambda a: second(a, np.inf),
            "negative": lambda a: second(a, -1.0),
            "zeros": np.zeros_like,
        },
    ),
}
KIND_OF = {
    **dict.fromkeys(["X", "y_proba", "y_proba_a", "y_proba_b"], "scores"),
    **dict.fromkeys(["posterior", "scores_in", "scores_out"], "scores"),
    **dict.fromkeys(["y", "y_true"], "labels"),
    "sample_weight": "weights",
}


class Changed(dict):
    """Arguments of which one was changed; tells whether that one was read."""

    def __init__(self, known, name, change):
        super().__init__(known)
        self.name, self.is_read = name, False
        self[name] = change(known[name])

    def __getitem__(self, name):
        self.is_read |= name == self.name
        return super().__getitem__(name)

    def __or__(self, other):
        if self.name not in other:
            self.update(other)
            return self
        return {**self, **other}


@pytest.fixture(scope="module")
def script():
    pytest.importorskip("lightgbm", reason="LightGBM is not tested on macOS")
    spec = importlib.util.spec_from_file_location("record_values", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def calls_of(script, prefixes):
    """Yield a call of each member with arguments of four classes, in one batch."""
    for member, calls in script.members(prefixes):
        named = {} if "Accumulator" in member or "Monitor" in member else dict(calls)
        for end in ("4 float64 sample_weight", "4 float64"):
            label = next((each for each in named if each.endswith(end)), None)
            if label is not None:
                yield member, named[label]
                break


def outcome(script, call, monkeypatch, changed):
    """Return the values of a call with changed arguments, or its error."""
    tables = {name: getattr(script, name) for name in ("given", "fitted")}
    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        for name in tables:
            patch.setattr(script, name, lambda *_, name=name: changed[name])
        try:
            return [array for _, array in script.arrays_of(call())]
        except Exception as error:
            return error
        finally:
            plt.close("all")


def is_clear(error, name):
    """Whether an error is one of scikit-learn, or names the argument."""
    if not isinstance(error, ValueError | TypeError):
        return False
    frame = traceback.extract_tb(error.__traceback__, limit=-1)[-1]
    of_sklearn = {"sklearn"} & {*Path(frame.filename).parts}
    others = {"scores": "X|y|y_proba|y_true", "labels": "y|y_true|labels"}
    allowed = f"{name}|{others.get(KIND_OF[name], name)}"
    named = re.search(rf"(?<!\w)({allowed})(?!\w)", str(error))
    return bool(of_sklearn or named)


def faults_of(script, monkeypatch, *, choose, prefixes):
    """Yield a line for each form with another result, and each fault not told."""
    known = {name: getattr(script, name)(4, "float64") for name in ("given", "fitted")}
    for member, call in calls_of(script, prefixes):
        expected = None
        for name, kind in KIND_OF.items():
            forms, faults = KINDS[kind]
            for form in choose(name, [*forms, *faults]):
                change = {**forms, **faults}[form]
                changed = {k: Changed(known[k], name, change) for k in known}
                found = outcome(script, call, monkeypatch, changed)
                if not any(each.is_read for each in changed.values()):
                    break
                if form in faults:
                    is_right = isinstance(found, Exception) and is_clear(found, name)
                else:
                    expected = expected or outcome(script, call, monkeypatch, known)
                    is_right = are_close(found, expected)
                if not is_right:
                    yield f"{member}, {name}, {form}: got {found!r:.300}"


def are_close(found, expected):
    """Whether two lists of arrays are equal up to the order of sums."""
    return isinstance(found, list) and all(
        np.allclose(a, b, rtol=1e-5, atol=1e-7, equal_nan=True)
        if b.dtype.kind == "f"
        else np.array_equal(a, b)
        for a, b in zip(found, expected, strict=True)
    )


def test_one_change_of_each_argument(script, monkeypatch):
    """Estimators and displays, which take longest, are left to the slow test.

    `tests/displays/test_common.py` changes the data of displays.
    """
    turns = {}

    def choose(name, names):
        turns[name] = turns.get(name, -1) + 1
        return [names[turns[name] % len(names)]]

    topics = "calibrators", "deployment", "evaluation", "metrics"
    faults = faults_of(script, monkeypatch, choose=choose, prefixes=topics)
    assert not (found := [*faults]), "\n".join(found)


@pytest.mark.slow
def test_all_changes(script, monkeypatch):
    faults = faults_of(
        script, monkeypatch, choose=lambda _, names: names, prefixes=[""]
    )
    assert not (found := [*faults]), "\n".join(found)
