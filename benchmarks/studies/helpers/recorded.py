"""A fitted classifier whose features are the probabilities that it predicts."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class Recorded(ClassifierMixin, BaseEstimator):
    """Fitted classifier whose features are its predicted probabilities."""

    def __init__(self, n_classes):
        self.n_classes = n_classes

    def fit(self, *_):
        return self

    def __sklearn_is_fitted__(self):
        return True

    @property
    def classes_(self):
        return np.arange(self.n_classes)

    def predict_proba(self, X):
        return X
