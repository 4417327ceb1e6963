"""Hostile values for parameters that are numbers, names or switches."""

from functools import cache

import numpy as np

from hostile.values import ANY, INVALID, OPEN, Hostile


class Nothing:
    """Object that is not valid for any parameter."""

    def __repr__(self):
        return "<Nothing>"


# Invalid for all parameters.
WRONG_FOR_ALL = {
    "object": Nothing(),
    "complex": 1 + 2j,
    "bytes": b"hostile",
}
# Valid for some parameters.
WRONG_FOR_MOST = {
    "word": "hostile",
    "empty word": "",
    "None": None,
    "True": True,
    "minus one": -1,
    "zero": 0,
    "minus zero": -0.0,
    "half": 0.5,
    "one": 1,
    "two": 2,
    "tiny": 5e-324,
    "large": 1e300,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "minus infinity": float("-inf"),
    "10**9": 10**9,
    "10**30": 10**30,
    "minus 10**9": -(10**9),
    "numpy NaN": np.float64("nan"),
    "numpy int": np.int64(3),
    "numpy float": np.float32(0.3),
    "list": [],
    "list of None": [None],
    "list of words": ["hostile"],
    "tuple": (1, 2),
    "dict": {},
    "dict of words": {"hostile": "value"},
    "set": {1, "a"},
    "function": len,
    "class": int,
    "array": np.array([1.0, 2.0]),
    "NaN array": np.array([np.nan, 1.0]),
    "empty array": np.array([]),
    "words": np.array(["hostile", "values"]),
}
# Invalid if the default is a number, and if it is a name or a switch.
NEVER_A_NUMBER = {
    *("word", "empty word", "NaN", "minus infinity", "numpy NaN", "list", "dict"),
    *("list of None", "list of words", "dict of words", "set", "function", "class"),
    *("array", "NaN array", "empty array", "words", "tuple"),
}
NEVER_A_CHOICE = {
    *("word", "empty word", "NaN", "minus infinity", "numpy NaN", "list", "dict"),
    *("list of None", "list of words", "dict of words", "set"),
    *("NaN array", "empty array", "words", "minus 10**9"),
}
# Passed on unchanged to matplotlib, to torch or to a legend.
HANDED_ON = {
    *("ax", "name", "risk_name", "net", "dataset", "generator"),
    *("compile", "torch_load_kwargs", "n_jobs", "verbose"),
}
# Amounts of work, which are accepted and may take forever.
WORK = {"n_resamples", "max_epochs"}
MUCH = {"10**9", "10**30", "large", "infinity", "minus one", "minus 10**9"}
# scikit-learn unpacks iterables of splits.
SPLITS = {key for key, value in WRONG_FOR_MOST.items() if hasattr(value, "__len__")}
SPLITS -= {"word", "empty word"}
# A finite result may not exist.
EXTREME = {"tiny", "large", "infinity", "minus infinity", "10**9", "10**30"}
EXTREME |= {"minus 10**9", "NaN", "numpy NaN", "NaN array"}
# Sizes, which are accepted and may exhaust the memory.
SIZES = {"n_features", "n_classes", "n_channels", "n_filters", "n_stages"}
SIZES |= {"n_projection"}  # of RefCalClassifier
HUGE = {"10**9", "10**30"}
# Parameters that are neither numbers nor switches may be functions, which raise their
# own errors.
FUNCTIONS = {"function", "class"}


@cache
def hostile_options(name, kind):
    """Return the table for one parameter, by its name and the type of its default."""
    if name in HANDED_ON:
        return {}
    values, invalid = WRONG_FOR_ALL | WRONG_FOR_MOST, set(WRONG_FOR_ALL)
    left_out = set(MUCH if name in WORK else SPLITS if name == "cv" else ())
    left_out |= HUGE if name in SIZES else set()
    if issubclass(kind, int | float) and not issubclass(kind, bool):
        invalid |= NEVER_A_NUMBER
    else:
        left_out |= FUNCTIONS
        invalid |= NEVER_A_CHOICE if issubclass(kind, bool | str) else set()
    return {
        key: Hostile(
            lambda _, value=value: value,
            INVALID if key in invalid else ANY if key in EXTREME else OPEN,
        )
        for key, value in values.items()
        if key not in left_out
    }
