"""Outputs of networks."""

import numpy as np
from skorch.utils import to_numpy


def concatenate_logits(batches):
    """Return the outputs of a network for each batch as one float64 array."""
    outputs = [out[0] if isinstance(out, tuple) else out for out in batches]
    # numpy converts single precision without an intermediate array, but not bfloat16.
    outputs = [out if out.element_size() > 2 else out.float() for out in outputs]
    return np.concatenate([to_numpy(out) for out in outputs], dtype=np.float64)
