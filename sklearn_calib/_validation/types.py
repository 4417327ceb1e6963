"""Type aliases for annotations."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Validated arrays. Arguments of public functions are ArrayLike.
Array: TypeAlias = NDArray[Any]
Bools: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.floating[Any]]
Ints: TypeAlias = NDArray[np.integer[Any]]

# Validated sample weights.
Weights: TypeAlias = Floats | None

# Options with fixed strings have the type str; validate_params lists the strings.
Confidence: TypeAlias = str | Callable[[Floats], ArrayLike] | ArrayLike
History: TypeAlias = list[dict[str, Any]]
Metric: TypeAlias = Callable[..., Any]
Options: TypeAlias = dict[str, Any]
Seed: TypeAlias = int | np.random.RandomState | None

# For decorators, so that decorated functions keep their types.
Function = TypeVar("Function", bound=Callable[..., Any])
