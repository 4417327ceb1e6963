"""Outputs of networks."""

import numpy as np
from skorch.utils import to_numpy


def concatenate_logits(batches):
    """Return the outputs of a network for each batch as one float64 array."""
    outputs = (out[0] if isinstance(out, tuple) else out for out in batches)
    # Copies, since tensors that are kept would fragment the memory between batches.
    return np.concatenate([np.array(to_numpy(out.double())) for out in outputs])
