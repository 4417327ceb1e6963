"""Classification of the outcome of a call, with the reason."""

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

# Clear messages of numpy and Python, although they do not name a parameter.
CLEAR_MESSAGES = re.compile(
    r"could not convert string to float"
    r"|got an unexpected keyword argument|missing \d+ required"
    # Files and their parts, and messages of scikit-learn about a chunk.
    r"|\[Errno \d+\]|cannot be (?:loaded|written)|^Chunk \d+ of batches: "
    r"|^(?:object\.|format |version )"
)


@dataclass(frozen=True)
class Outcome:
    """Category of a try, with the message or the fault."""

    category: str
    detail: str = ""

    @property
    def is_fault(self):
        return self.category in FAULTS


def attempt(call, verdict, *, names=(), expected=None):
    """Return the outcome of a call, given the verdict on its input.

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
    if outcome.is_fault or verdict != SAME:
        return outcome
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # printed warnings are faults
        wanted = expected()
    if are_equal(result, wanted):
        return outcome
    return Outcome(SILENT, f"{shown(result)} in place of {shown(wanted)}")


def judge_error(error, verdict, names):
    """Return the outcome of a call that raised an exception."""
    message = f"{type(error).__name__}: {error}"
    if not is_clear(error, names):
        frame = traceback.extract_tb(error.__traceback__, limit=-1)[-1]
        return Outcome(RAW, f"{message} [{Path(frame.filename).name}:{frame.lineno}]")
    return Outcome(REFUSED if verdict in (SAME, VALID) else CLEAR, message)


def is_clear(error, names):
    """Return whether the error has a suitable type and a clear message."""
    if type(error).__module__.partition(".")[0] not in ("builtins", "sklearn"):
        return False
    kinds = ValueError | TypeError | OSError  # the last one of files
    if not isinstance(error, kinds) or isinstance(error, UnicodeError):
        return False
    message = str(error)
    if CLEAR_MESSAGES.search(message) or is_raised_by_sklearn(error):
        return True
    named = any(re.search(rf"(?<!\w){re.escape(n)}(?!\w)", message) for n in names)
    return named and re.search(
        r"\bgot\b|not fitted|must|no parameter|Incorrect", message
    )


def is_raised_by_sklearn(error):
    """Return whether scikit-learn itself raised the error."""
    frame = traceback.extract_tb(error.__traceback__, limit=-1)[-1]
    return "sklearn" in Path(frame.filename).parts and frame.line.startswith("raise")


def judge_result(result, verdict, caught):
    """Return the outcome of a call that returned a result."""
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
    """Return whether the numbers of two results are equal, up to float32 sums."""
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
    """Yield the non-finite numbers of an array."""
    if np.isnan(array).any():
        yield "NaN"
    if np.isinf(array).any():
        yield "infinity"


def numbers(result):
    """Yield the arrays of numbers in a result, also from tuples, dicts and tables."""
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
