"""Predictions of a classifier that returns logits, and checks of its outputs."""

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import ClassifierMixin
from skorch.utils import to_numpy
from torch import Tensor
from torch.utils.data import Dataset

from sklearn_calib._numerics.softmax import softmax
from sklearn_calib._sklearn.training_data import MatrixLike
from sklearn_calib._validation.dask_arrays import maps_blocks
from sklearn_calib._validation.probabilities import are_proba
from sklearn_calib._validation.types import Array, Floats

# Data of a network: a dict contains the arguments of a module with several inputs.
Inputs: TypeAlias = MatrixLike | Mapping[str, Any] | Dataset[Any]


class PredictsFromLogits(ClassifierMixin):
    """Classifier whose decision function and classes follow from its logits.

    Subclasses have the method `_logit_blocks(X)`, which yields arrays of float64 with
    the logits of some samples each, and `_logits(X)`, which returns those of all.
    """

    def decision_function(self, X: Inputs) -> Floats:
        """Return the logits, in float64.

        Parameters
        ----------
        X : array-like, sparse matrix, dict or torch.utils.data.Dataset
            Data as in `fit`, finite. The labels of a `Dataset` are ignored.

        Returns
        -------
        logits : ndarray of shape (n_samples, n_classes) or (n_samples,)
            For two classes, the logit of the second class minus that of the first.
        """
        logits = self._logits(X)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    @maps_blocks()
    def predict(self, X: Inputs) -> Array:
        """Predict the most probable class; ties go to the first class.

        Parameters
        ----------
        X : array-like, sparse matrix, dict or torch.utils.data.Dataset
            Data as in `fit`, finite. The labels of a `Dataset` are ignored.

        Returns
        -------
        y_pred : ndarray of shape (n_samples,)
            Predicted labels.
        """
        blocks = self._logit_blocks(X)
        codes = [softmax(logits).argmax(axis=1) for logits in blocks]
        return self.classes_[np.concatenate(codes)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _logit_blocks(self, X: Inputs) -> Iterator[Floats]:
        raise NotImplementedError

    def _logits(self, X: Inputs) -> Floats:
        raise NotImplementedError


def check_logits(logits: Any, n_classes: int) -> None:
    """Raise an error unless the output of a module is a logit for each class."""
    if not isinstance(logits, Tensor):
        raise TypeError(
            f"module must return a tensor of logits, got {type(logits).__name__}. "
            "Return its logits in the forward method of a module that calls it."
        )
    if logits.ndim != 2 or logits.shape[1] != n_classes:
        raise ValueError(
            "module must return logits of shape (n_samples, n_classes) with "
            f"n_classes={n_classes}, got shape {tuple(logits.shape)}. Two classes need "
            "two logits."
        )


def warn_of_proba(logits: Tensor) -> None:
    """Warn if the outputs of a module look like probabilities."""
    if are_proba(to_numpy(logits.float())):
        warnings.warn(
            "module should return logits, got outputs that look like probabilities: "
            "none is negative, and each row sums to one. Remove the softmax at the end "
            "of the module, as the loss and predict_proba apply it.",
            UserWarning,
        )
