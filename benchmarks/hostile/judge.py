"""The judge: what a call came to, in one word, and why."""

import re
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.exceptions import UndefinedMetricWarning

from hostile.values import ANY, INVALID, NAN, SAME, VALID

RIGHT, CLEAR, RAW, SILENT = "right", "clear error", "raw", "silent"
REFUSED, NOT_FINITE, HANG = "refused though valid", "not finite", "hang"
CATEGORIES = [RIGHT, CLEAR, RAW, SILENT, REFUSED, NOT_FINITE, HANG]
FAULTS = set(CATEGORIES) - {RIGHT, CLEAR}

# What numpy and Python say well enough, though they name no parameter of ours.
WELL_SAID = re.compile(
    r"could not convert string to float"
    r"|got an unexpected keyword argument|missing \d+ required"
)


@dataclass(frozen=True)
class Outcome:
    """The category of a try and, for the reader, the message or what is wrong."""

    category: str
    detail: str = ""

    @property
    def is_fault(self):
        return self.category in FAULTS


def attempt(call, verdict, *, names=(), expected=None):
    """Return what the call comes to, given what its input must come to.

    `expected` is a function that returns the result of the valid input.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call()
        except Exception as error:
            return judge_error(error, verdict, names)
    if isinstance(result, Outcome):
        return result
    outcome = judge_result(result, verdict, caught)
    if outcome.is_fault or verdict != SAME or are_equal(result, expected()):
        return outcome
    return Outcome(SILENT, f"{shown(result)} in place of {shown(expected())}")


def judge_error(error, verdict, names):
    """Return whether an exception is one that was meant for the user."""
    message = f"{type(error).__name__}: {error}"
    if not is_clear(error, names):
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome(RAW, f"{message} [{Path(frame.filename).name}:{frame.lineno}]")
    return Outcome(REFUSED if verdict in (SAME, VALID) else CLEAR, message)


def is_clear(error, names):
    """Whether the error is one of the two kinds, and says what was wrong and how."""
    if type(error).__module__.partition(".")[0] not in ("builtins", "sklearn"):
        return False
    if not isinstance(error, ValueError | TypeError) or isinstance(error, UnicodeError):
        return False
    message = str(error)
    if WELL_SAID.search(message) or is_raised_by_sklearn(error):
        return True
    named = any(re.search(rf"(?<!\w){re.escape(n)}(?!\w)", message) for n in names)
    return named and re.search(
        r"\bgot\b|not fitted|must|no parameter|Incorrect", message
    )


def is_raised_by_sklearn(error):
    """Whether a line of scikit-learn raises it, and not what that line calls."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return "sklearn" in Path(frame.filename).parts and frame.line.startswith("raise")


def judge_result(result, verdict, caught):
    """Return whether a result is what the input deserves."""
    numeric = [w for w in caught if issubclass(w.category, RuntimeWarning)]
    if numeric:
        warned = numeric[0]
        place = f"{Path(warned.filename).name}:{warned.lineno}"
        return Outcome(RAW, f"{warned.category.__name__}: {warned.message} [{place}]")
    undefined = any(issubclass(w.category, UndefinedMetricWarning) for w in caught)
    if verdict == INVALID:
        return Outcome(SILENT, f"accepted, returned {shown(result)}")
    if verdict == ANY:
        return Outcome(RIGHT)
    found = worst(result)
    if verdict == NAN:
        hidden = found != "NaN"
        return (
            Outcome(SILENT, f"NaN became {shown(result)}") if hidden else Outcome(RIGHT)
        )
    if found == "infinity" and hasattr(result, "pvalue"):
        found = ""  # a statistic, as far out as there is
    if found and not undefined:
        return Outcome(NOT_FINITE, f"{found} in {shown(result)}")
    return Outcome(RIGHT)


def are_equal(result, expected):
    """Whether the numbers of two results are equal, but for float32 sums."""
    pairs = zip(numbers(result), numbers(expected), strict=True)
    return all(
        np.allclose(*pair, rtol=1e-5, atol=1e-7, equal_nan=True) for pair in pairs
    )


def shown(result):
    return re.sub(r"\s+", " ", repr(result))[:120]


def worst(result):
    """Return "NaN", "infinity" or an empty string for the numbers of a result."""
    found = {kind for part in numbers(result) for kind in kinds(part)}
    return "NaN" if "NaN" in found else "infinity" if found else ""


def kinds(array):
    """Yield what an array holds that is no finite number."""
    if np.isnan(array).any():
        yield "NaN"
    if np.isinf(array).any():
        yield "infinity"


def numbers(result):
    """Yield the arrays of numbers in a result: of tuples, dicts and tables too."""
    if isinstance(result, torch.Tensor):
        yield result.detach().double().numpy()
    elif isinstance(result, pd.DataFrame | pd.Series):
        yield from numbers(result.to_numpy())
    elif isinstance(result, np.ndarray | float | int | np.number):
        array = np.asarray(result)
        if array.dtype.kind == "f":
            yield array
    elif isinstance(result, dict):
        yield from (array for part in result.values() for array in numbers(part))
    elif isinstance(result, tuple | list):
        yield from (array for part in result for array in numbers(part))
