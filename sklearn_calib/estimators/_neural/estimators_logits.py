"""Checks of the outputs of a network during training."""

import warnings
from typing import Any

from skorch.utils import to_numpy
from torch import Tensor

from sklearn_calib._validation.limits import are_proba


def check_logits(net: Any, logits: Any) -> None:
    """Raise an error unless the output of a module is a logit for each class.

    Probabilities lead to a warning, once per fit.
    """
    if not isinstance(logits, Tensor):
        raise TypeError(
            f"module must return a tensor of logits, got {type(logits).__name__}. "
            "Return its logits in the forward method of a module that calls it."
        )
    n_classes = len(net.classes_inferred_)
    if logits.ndim != 2 or logits.shape[1] != n_classes:
        raise ValueError(
            "module must return logits of shape (n_samples, n_classes) with "
            f"n_classes={n_classes}, got shape {tuple(logits.shape)}. Two classes need "
            "two logits."
        )
    trainer = net._trainer
    if trainer is None or trainer.has_seen_logits:
        return
    trainer.has_seen_logits = True
    if are_proba(to_numpy(logits.float())):
        warnings.warn(
            "module should return logits, got outputs that look like probabilities: "
            "none is negative, and each row sums to one. Remove the softmax at the end "
            "of the module, as the loss and predict_proba apply it.",
            UserWarning,
        )
