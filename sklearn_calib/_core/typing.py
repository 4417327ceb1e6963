"""Short names of the types that annotations share."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Arrays that have been checked. What users pass is an ArrayLike.
Array: TypeAlias = NDArray[Any]
Bools: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.floating[Any]]
Ints: TypeAlias = NDArray[np.integer[Any]]

# Sample weights that have been checked.
Weights: TypeAlias = Floats | None

# Options that are words are typed as str: validate_params alone lists the words.
Confidence: TypeAlias = str | Callable[[Floats], ArrayLike] | ArrayLike
History: TypeAlias = list[dict[str, Any]]
Metric: TypeAlias = Callable[..., Any]
Options: TypeAlias = dict[str, Any]
Seed: TypeAlias = int | np.random.RandomState | None

# What a decorator takes and returns, so that it hides no types.
Function = TypeVar("Function", bound=Callable[..., Any])
