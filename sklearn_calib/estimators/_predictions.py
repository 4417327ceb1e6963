"""Predictions of a classifier that returns logits."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from sklearn.base import ClassifierMixin
from torch.utils.data import Dataset

from sklearn_calib._core.links import softmax
from sklearn_calib._core.typing import Array, Floats
from sklearn_calib.estimators._out_of_fold import MatrixLike

# Data of a network: a dict contains the arguments of a module with several inputs.
Inputs: TypeAlias = MatrixLike | Mapping[str, Any] | Dataset[Any]


class PredictsFromLogits(ClassifierMixin):
    """Classifier whose decision function and classes follow from its logits.

    Subclasses have the method `_logits(X)`, which returns an array of float64 of shape
    (n_samples, n_classes).
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
        codes = softmax(self._logits(X)).argmax(axis=1)
        return self.classes_[codes]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _logits(self, X: Inputs) -> Floats:
        raise NotImplementedError
