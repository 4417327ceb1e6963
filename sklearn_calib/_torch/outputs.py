"""Outputs of networks."""

import numpy as np
from skorch import NeuralNet
from skorch.utils import to_numpy

from sklearn_calib._torch.processes import is_one_of_many


def concatenate_logits(batches):
    """Return the outputs of a network for each batch as one float64 array.

    The array grows in place: a list of outputs would stay in memory beside the result.
    """
    logits, n_rows = np.empty(0), 0
    for batch in batches:
        output = batch[0] if isinstance(batch, tuple) else batch
        # numpy reads single precision without an intermediate array, but not bfloat16.
        rows = to_numpy(output if output.element_size() > 2 else output.float())
        start, n_rows = n_rows, n_rows + len(rows)
        if n_rows > len(logits):
            size = max(n_rows, len(logits) * 9 // 8)
            logits.resize((size, *rows.shape[1:]), refcheck=False)
        logits[start:n_rows] = rows
    logits.resize((n_rows, *logits.shape[1:]), refcheck=False)
    return logits


def predict_batch(net, batch, training=False):
    """Return the output of a network for a mini-batch, as `evaluation_step` does.

    The `evaluation_step` of skorch's mixin for accelerate gathers the outputs of all
    processes, which `infer` has done already.
    """
    step = NeuralNet.evaluation_step if is_one_of_many() else type(net).evaluation_step
    return step(net, batch, training=training)
