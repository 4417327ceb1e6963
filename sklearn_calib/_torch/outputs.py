"""Outputs of networks."""

import numpy as np
from skorch import NeuralNet
from skorch.utils import to_numpy

from sklearn_calib._torch.processes import is_one_of_many


def concatenate_logits(batches):
    """Return the outputs of a network for each batch as one float64 array."""
    outputs = (out[0] if isinstance(out, tuple) else out for out in batches)
    # numpy converts single precision without an intermediate array, but not bfloat16.
    outputs = (out if out.element_size() > 2 else out.float() for out in outputs)
    # Copies, since tensors that are kept would fragment the memory between batches.
    arrays = [np.array(to_numpy(out)) for out in outputs]
    return np.concatenate(arrays, dtype=np.float64)


def predict_batch(net, batch, training=False):
    """Return the output of a network for a mini-batch, as `evaluation_step` does.

    The `evaluation_step` of skorch's mixin for accelerate gathers the outputs of all
    processes, which `infer` has done already.
    """
    step = NeuralNet.evaluation_step if is_one_of_many() else type(net).evaluation_step
    return step(net, batch, training=training)
