"""Linear interpolation of very small numbers."""

import numpy as np

from sklearn_calib._core.typing import Floats

# Makes subnormal numbers normal.
SCALE = 2.0**60


def interpolate(values: Floats, points: tuple[Floats, Floats]) -> Floats:
    """Return `np.interp` for points that may be subnormal numbers.

    The slope between them would overflow. Multiplying by a power of two is exact.
    """
    x, y = points
    return np.interp(SCALE * values, SCALE * x, y)
