"""From logits to probabilities, in numpy."""

import numpy as np


def softmax(logits):
    """Return the softmax of each row, in the dtype of the logits."""
    proba = logits - logits.max(axis=1, keepdims=True)
    np.exp(proba, out=proba)
    proba /= proba.sum(axis=1, keepdims=True)
    return proba


def log_softmax(logits):
    """Return the logarithm of the softmax of each row, in the dtype of the logits."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted
