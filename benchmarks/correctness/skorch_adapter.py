"""`NeuralClassifier` with skorch's names and defaults, for `run_skorch_tests.py`."""

import re

import numpy as np
import skorch
import torch
from skorch.dataset import ValidSplit
from skorch.toy import make_classifier
from torch.utils.data import Dataset

from sklearn_calib import NeuralClassifier


def renamed(params):
    """Return parameters of skorch with the names that they have here."""
    params = {
        re.sub(r"^criterion(?=__|$)", "loss", name): params[name] for name in params
    }
    if params.get("loss") is torch.nn.NLLLoss:
        params["loss"] = torch.nn.CrossEntropyLoss  # the module returns logits
    return params


def find_classes(X, y):
    """Return the classes of labels, or of those that a dataset returns."""
    if y is None and isinstance(X, Dataset):
        y = [label for _, label in X]
    return None if y is None else np.unique(np.asarray(y))


class NeuralNetClassifier(NeuralClassifier):
    """`NeuralClassifier` that is used like the class of skorch with this name."""

    def __init__(self, module=None, **kwargs):
        defaults = {
            "optimizer": torch.optim.SGD,
            "lr": 0.01,
            "loss": torch.nn.CrossEntropyLoss,
            "max_epochs": 10,
            "train_split": ValidSplit(5, stratified=True),
            "verbose": 1,
        }
        super().__init__(module, **{**defaults, **renamed(kwargs)})

    @property
    def criterion(self):
        return self.loss

    @criterion.setter
    def criterion(self, loss):
        self.loss = loss

    def set_params(self, **params):
        return super().set_params(**renamed(params))

    def fit(self, X, y=None, **params):
        if isinstance(X, Dataset):
            params["classes"], y = find_classes(X, y), None
        return super().fit(X, y, **params)

    def partial_fit(self, X, y=None, classes=None, **params):
        if classes is None and not self._is_trained():
            classes = find_classes(X, y)
        if isinstance(X, Dataset):
            y = None
        return super().partial_fit(X, y, classes, **params)

    def _is_trained(self):
        return "classes_inferred_" in vars(self)


def make_logits_classifier(output_nonlin=None, **params):
    """Return skorch's module for tests, without its softmax."""
    return make_classifier(output_nonlin or torch.nn.Identity(), **params)


def substitute():
    """Let tests import the adapter and the module without softmax from skorch."""
    skorch.NeuralNetClassifier = NeuralNetClassifier
    skorch.toy.make_classifier = make_logits_classifier
