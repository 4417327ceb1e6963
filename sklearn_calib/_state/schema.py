"""The schema of a fitted state, that files are checked against when they are read.

A class that can be saved inherits from `StateMixin`. Its schema maps the names of its
fitted attributes to a `Spec`. All values are written in the same way, and each is read
by its spec, so that a file cannot contain anything that the schema does not allow.
"""

import inspect
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from numbers import Real
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_calib._state.json_values import (
    INFINITY,
    check_list,
    check_object,
    read_array,
    refuse,
)
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.types import Array

# Values that are computed to lie in [0, 1] may exceed it by rounding errors.
SLACK = 1e-12

# Stands for the value of the outer object.
SAME = object()

# Largest difference of a sum from its value by rounding errors.
SUM_TOLERANCE = 1e-6

# A number, the name of a size, or a name plus a number: 3, "n", "n + 1".
Size: TypeAlias = int | str

# Sizes that follow from the number of classes.
DERIVED_SIZES: dict[str, Callable[[int], int]] = {
    "n_maps": lambda n_classes: 1 if n_classes == 2 else n_classes,
    "n_curves": lambda n_classes: 2 if n_classes == 2 else 1,
    "2 * n_classes": lambda n_classes: 2 * n_classes,
}


class Range(NamedTuple):
    """A closed interval of finite numbers, and the rule in messages."""

    rule: str
    low: float = -sys.float_info.max
    high: float = sys.float_info.max

    def check(self, value: Any, key: str) -> None:
        """Raise ValueError unless a value is a finite number in the interval."""
        is_number = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
        if not (is_number and self.low <= value <= self.high):
            refuse(key, f"a number {self.rule}", value)


FINITE = Range("that is finite")
POSITIVE = Range("> 0", low=math.ulp(0.0))
NON_NEGATIVE = Range(">= 0", low=0.0)
FRACTION = Range("in [0, 1]", 0.0, 1 + SLACK)
BELOW_ONE = Range("in [0, 1)", -SLACK, math.nextafter(1, 0))
UP_TO_ONE = Range("in (0, 1]", math.ulp(0.0), 1 + SLACK)
UP_TO_HALF = Range("in (0, 0.5]", math.ulp(0.0), 0.5)


def _shown(range: Range) -> str:  # noqa: A002 - the range of the values
    return "" if range is FINITE else f" {range.rule}"


@dataclass
class Source:
    """What is known while an object is read: others, tensors, attributes and sizes."""

    read_object: Callable[..., Any]
    tensors: dict[str, Array]
    known: dict[str, Any]
    sizes: dict[str, int] = field(default_factory=dict)

    def check_size(self, size: int, wanted: Size, key: str) -> None:
        """Raise ValueError for another size than wanted; a new name gets the size."""
        if isinstance(wanted, str):
            name, _, extra = wanted.partition(" + ")
            least = int(extra or 0)
            wanted = self.sizes.setdefault(name, max(size - least, 0)) + least
        if size != wanted:
            raise ValueError(f"{key} must have {wanted} values, got {size}.")


class Spec(ABC):
    """What a value in a file must be; `str` describes it in the documentation."""

    is_optional = False

    @abstractmethod
    def read(self, value: Any, key: str, source: Source) -> Any:
        """Return the Python value of a JSON value, or raise a ValueError."""


@dataclass(frozen=True)
class Number(Spec):
    """A number in a range, or infinity if `or_infinity`."""

    range: Range = FINITE
    or_infinity: bool = False
    is_optional: bool = False

    def read(self, value: Any, key: str, source: Source) -> Any:
        if self.or_infinity and isinstance(value, str) and value == INFINITY:
            return math.inf
        if isinstance(value, dict):  # a numpy number
            value = read_array(value, key, source.tensors)[()]
        self.range.check(value, key)
        return float(value) if isinstance(value, int) else value

    def __str__(self) -> str:
        also = f' or "{INFINITY}"' * self.or_infinity
        return "number" + _shown(self.range) + also


@dataclass(frozen=True)
class Count(Spec):
    """A number of columns: one of the named sizes, or any if there are none."""

    name: str
    sizes: tuple[str, ...] = ()
    is_optional: bool = False

    def read(self, value: Any, key: str, source: Source) -> int:
        if type(value) is not int or value < 1:
            refuse(key, "a positive integer", value)
        allowed = {source.sizes[size] for size in self.sizes} or {value}
        if value not in allowed:
            refuse(key, " or ".join(map(str, sorted(allowed))), value)
        source.sizes[self.name] = value
        return value

    def __str__(self) -> str:
        return " or ".join(self.sizes) or "positive integer"


@dataclass(frozen=True)
class Labels(Spec):
    """Distinct class labels, which determine `n_classes` and the derived sizes."""

    def read(self, value: Any, key: str, source: Source) -> Array:
        labels = read_array(value, key, source.tensors)
        values = labels.tolist() if labels.ndim == 1 else []
        if len(set(values)) < max(len(values), 2) or len(set(map(type, values))) > 1:
            refuse(key, "at least two distinct labels of one type", values)
        source.known[key.rpartition(".")[2]] = labels
        source.sizes["n_classes"] = len(values)
        for name, derive in DERIVED_SIZES.items():
            source.sizes[name] = derive(len(values))
        return labels

    def __str__(self) -> str:
        return "array (n_classes,) of distinct labels"


@dataclass(frozen=True)
class Names(Spec):
    """Names of columns or inputs, which data without names do not have."""

    size: Size
    is_optional = True

    def read(self, value: Any, key: str, source: Source) -> Array:
        names = read_array(value, key, source.tensors)
        if names.ndim != 1 or {*map(type, names.tolist())} - {str}:
            refuse(key, "a list of strings", names.tolist())
        source.check_size(len(names), self.size, key)
        return names

    def __str__(self) -> str:
        return f"array ({self.size},) of strings"


@dataclass(frozen=True)
class GroupNames(Spec):
    """Distinct names of groups, of any type; possibly none if there is no size."""

    size: Size | None = "n_groups"
    is_optional: bool = True

    def read(self, value: Any, key: str, source: Source) -> Array:
        names = read_array(value, key, source.tensors)
        values = names.tolist() if names.ndim == 1 else [0, 0]
        if (self.size and not values) or len(set(values)) < len(values):
            refuse(key, "distinct names of groups", values)
        source.check_size(len(values), self.size or len(values), key)
        return names

    def __str__(self) -> str:
        return f"array ({self.size or 'any length'},) of distinct names"


class Numbers(Spec):
    """An array of finite floats, or of integers.

    Parameters
    ----------
    *sizes : int or str
        Size of each dimension.

    range : Range, default=FINITE
        Range of the values.

    increasing : bool or "strictly", default=False
        Whether no value is smaller than the previous one, or equal to it.

    total : float, default=None
        Required sum of the values, up to rounding errors.

    is_optional : bool, default=False
        Whether the attribute may be missing.

    kind : {"f", "i"}, default="f"
        Kind of the dtype: floats or integers.
    """

    def __init__(
        self,
        *sizes: Size,
        range: Range = FINITE,  # noqa: A002 - the range of the values
        increasing: bool | str = False,
        total: float | None = None,
        is_optional: bool = False,
        kind: str = "f",
    ) -> None:
        self.sizes, self.range, self.kind = sizes, range, kind
        self.is_optional, self.increasing, self.total = is_optional, increasing, total

    def read(self, value: Any, key: str, source: Source) -> Array:
        array = read_array(value, key, source.tensors)
        if array.dtype.kind != self.kind or array.ndim != len(self.sizes):
            found = f"{array.dtype} of shape {array.shape}"
            kind = {"f": "floats", "i": "integers"}[self.kind]
            refuse(key, f"{kind} in {len(self.sizes)} dimensions", found)
        for size, wanted in zip(array.shape, self.sizes, strict=True):
            source.check_size(size, wanted, key)
        if array.size:
            self.range.check(array.min(), key)
            self.range.check(array.max(), key)
        if self.increasing and (array[1:] < array[:-1]).any():
            raise ValueError(f"{key} must be sorted, got a value below the previous.")
        if self.increasing == "strictly" and (array[1:] == array[:-1]).any():
            raise ValueError(f"{key} must be distinct, got equal values.")
        if self.total is not None and abs(array.sum() - self.total) > SUM_TOLERANCE:
            refuse(key, f"numbers that sum to {self.total:g}", float(array.sum()))
        return array

    def __str__(self) -> str:
        sizes = ", ".join(map(str, self.sizes)) + "," * (len(self.sizes) == 1)
        distinct = " and distinct" * (self.increasing == "strictly")
        order = f", sorted{distinct}" * bool(self.increasing)
        total = "" if self.total is None else f", sum {self.total:g}"
        kind = " of integers" * (self.kind == "i")
        return f"array ({sizes}){kind}{_shown(self.range)}{order}{total}"


class Tuple(Spec):
    """A list with a value for each of the given specs, whose "n" is its own."""

    def __init__(self, *items: Spec) -> None:
        self.items = items

    def read(self, value: Any, key: str, source: Source) -> tuple[Any, ...]:
        values = check_list(value, key)
        source.check_size(len(values), len(self.items), key)
        source.sizes.pop("n", None)
        pairs = enumerate(zip(self.items, values, strict=True))
        return tuple(
            item.read(each, f"{key}[{i}]", source) for i, (item, each) in pairs
        )

    def __str__(self) -> str:
        return f"[{'; '.join(map(str, self.items))}]"


@dataclass(frozen=True)
class ListOf(Spec):
    """A list of values of one spec, at least one."""

    item: Spec
    size: Size | None = None
    is_optional: bool = False

    def read(self, value: Any, key: str, source: Source) -> list[Any]:
        values = check_list(value, key)
        if self.size is not None:
            source.check_size(len(values), self.size, key)
        if not values:
            raise ValueError(f"{key} must not be empty.")
        return [
            self.item.read(each, f"{key}[{i}]", source) for i, each in enumerate(values)
        ]

    def __str__(self) -> str:
        return f"list of {self.size or 'any length'}: {self.item}"


class Fields(Spec):
    """An optional object of values by name, each with its own spec."""

    is_optional = True

    def __init__(self, **fields: Spec) -> None:
        self.fields = fields

    def read(self, value: Any, key: str, source: Source) -> dict[str, Any]:
        optional = {name for name, spec in self.fields.items() if spec.is_optional}
        check_object(value, key, self.fields.keys() - optional, optional)
        return {
            name: spec.read(value[name], f"{key}.{name}", source)
            for name, spec in self.fields.items()
            if name in value
        }

    def __str__(self) -> str:
        shown = (f"{n}{'*' * s.is_optional}: {s}" for n, s in self.fields.items())
        return f"object of {', '.join(shown)}"


class Object(Spec):
    """A nested object that is fitted; possibly None.

    Parameters
    ----------
    kind : type, default=object
        Class of the object.

    or_none : bool, default=False
        Whether it may be None.

    **attributes : object
        Values that its attributes must have. `SAME` is the value in the outer object.
    """

    def __init__(
        self, kind: type = object, *, or_none: bool = False, **attributes: Any
    ) -> None:
        self.kind, self.or_none, self.attributes = kind, or_none, attributes

    def read(self, value: Any, key: str, source: Source) -> Any:
        if value is None and self.or_none:
            return None
        new = source.read_object(value, key, is_fitted=True)
        if not isinstance(new, self.kind):
            refuse(key, f"a {self.kind.__name__}", new)
        for name, wanted in self.attributes.items():
            found = getattr(new, name)
            wanted = source.known[name] if wanted is SAME else wanted
            if not np.array_equal(found, wanted):
                refuse(f"{key}.{name}", wanted, found)
        return new

    def __str__(self) -> str:
        return "object" + " or null" * self.or_none


@dataclass(frozen=True)
class Tensors(Spec):
    """Arrays by name."""

    is_optional: bool = False

    def read(self, value: Any, key: str, source: Source) -> dict[str, Array]:
        if not isinstance(value, dict):
            refuse(key, "an object of arrays", value)
        return {
            name: read_array(each, f"{key}.{name}", source.tensors)
            for name, each in value.items()
        }

    def __str__(self) -> str:
        return "object of arrays by name"


def as_spec(term: Any) -> Spec:
    """Return the spec of `float`, a number, or of a tuple of sizes, an array."""
    if isinstance(term, Spec):
        return term
    if isinstance(term, tuple):
        return Numbers(*term)
    if term is float:
        return Number()
    raise TypeError(
        "_fitted must contain float for a number, or a tuple of sizes for an array, "
        f'such as ("n_classes",), got {shown(term)}. Use float for integers, too.'
    )


@cache
def read_parameters(function: Any, *given: Any) -> Mapping[str, inspect.Parameter]:
    """Return the parameters after given arguments; the signature is read only once."""
    return inspect.signature(partial(function, *given)).parameters


class StateMixin:
    """Mixin for a class with parameters and a fitted state that can be saved."""

    @property
    def _state_schema(self) -> dict[str, Spec]:
        """The fitted attributes, in the order in which they are read."""
        raise NotImplementedError  # each subclass has its own

    def _check_can_be_saved(self) -> None:
        """Raise NotFittedError if the state is not complete."""
        check_is_fitted(self)

    def _get_saved_params(self) -> dict[str, Any]:
        """Return the constructor parameters that are saved."""
        # Subclasses inherit from BaseEstimator too.
        return self.get_params(deep=False)  # type: ignore[attr-defined]

    def _get_passed_params(self) -> dict[str, Any]:
        """Return the parameters that are not saved and must be passed to `load`."""
        return {}

    @classmethod
    def _from_saved_params(
        cls: Any,
        params: dict[str, Any],
        key: str,
        passed: dict[str, Any],  # noqa: ARG003 - for subclasses
    ) -> Any:
        """Return a new object; raise ValueError if a parameter is invalid."""
        own = read_parameters(cls).values()
        required = {each.name for each in own if each.default is each.empty}
        check_object(params, key, required, {each.name for each in own})
        new = cls(**params)
        new._validate_params()
        return new

    def _get_state(self) -> dict[str, Any]:
        """Return the fitted attributes that are saved."""
        own = vars(self)
        return {name: own[name] for name in self._state_schema if name in own}

    def _set_state(self, state: dict[str, Any]) -> None:
        """Set attributes that agree with the schema; raise ValueError if invalid."""
        vars(self).update(state)
