"""Predictions of a classifier that returns logits."""

from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin

from sklearn_calib._core.links import softmax
from sklearn_calib._core.typing import Array, Floats


class PredictsFromLogits(ClassifierMixin):
    """Classifier whose decision function and classes follow from its logits.

    Subclasses have the method `_logits(X)`, which returns an array of float64 of shape
    (n_samples, n_classes).
    """

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return the logits, in float64.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...)
            Data as in `fit`, finite.

        Returns
        -------
        logits : ndarray of shape (n_samples, n_classes) or (n_samples,)
            For two classes, the logit of the second class minus that of the first.
        """
        logits = self._logits(X)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict(self, X: ArrayLike) -> Array:
        """Predict the most probable class; ties go to the first class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...)
            Data as in `fit`, finite.

        Returns
        -------
        y_pred : ndarray of shape (n_samples,)
            Predicted labels.
        """
        codes = softmax(self._logits(X)).argmax(axis=1)
        return self.classes_[codes]

    def _logits(self, X: Any) -> Floats:
        raise NotImplementedError
