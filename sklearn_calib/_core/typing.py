"""Short names of the types that annotations share."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Of the checked arrays inside; what users pass is an ArrayLike.
Array: TypeAlias = NDArray[Any]
Bools: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.floating[Any]]
Ints: TypeAlias = NDArray[np.integer[Any]]

# What keeps or leaves out samples, once checked.
Weights: TypeAlias = Floats | None

# Options that are words are str: which words is said once, to validate_params.
Confidence: TypeAlias = str | Callable[[Floats], ArrayLike] | ArrayLike
History: TypeAlias = list[dict[str, Any]]
Metric: TypeAlias = Callable[..., Any]
Options: TypeAlias = dict[str, Any]
Seed: TypeAlias = int | np.random.RandomState | None

# What a decorator takes and returns, for it to hide no types.
Function = TypeVar("Function", bound=Callable[..., Any])
