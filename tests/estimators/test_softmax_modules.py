"""A module that ends in softmax, as those of skorch's `NeuralNetClassifier` do."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits
from torch import nn

from sklearn_calib import NeuralClassifier
from sklearn_calib.estimators import MLP

X, y = load_digits(n_class=3, return_X_y=True)
X, y = X[:150] / 16, y[:150]
SEEDED = {"max_epochs": 2, "lr": 0.01, "random_state": 0}


class EndsIn(nn.Sequential):
    """The default network with one more layer, such as softmax."""

    def __init__(self, layer, n_features, n_classes):
        super().__init__(MLP(n_features, n_classes), layer)


def fit(layer, **params):
    """Return how many warnings a fit issues about the outputs of the module."""
    net = NeuralClassifier(EndsIn, module__layer=layer, **SEEDED).set_params(**params)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        net.fit(X[:30], y[:30])
    return sum("Remove the softmax at the end" in str(w.message) for w in caught)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"validation_fraction": 0.2, "refit": True},
        {"dtype": "float64", "loss": "adafocal"},
        {"batch_size": 1, "max_epochs": 1},
    ],
    ids=lambda params: "-".join(params) or "defaults",
)
def test_a_module_that_ends_in_softmax_warns_once(params):
    assert fit(nn.Softmax(dim=1), **params) == 1


@pytest.mark.parametrize("layer", [nn.LogSoftmax(dim=1), nn.ReLU(), nn.Sigmoid()])
def test_outputs_that_are_not_a_distribution_do_not_warn(layer):
    """The softmax of log-probabilities is these probabilities."""
    assert fit(layer) == 0


def test_every_call_of_fit_warns():
    net = NeuralClassifier(EndsIn, module__layer=nn.Softmax(dim=1), **SEEDED)
    net.set_params(warm_start=True)
    for method in (net.fit, net.fit, net.partial_fit):
        with pytest.warns(UserWarning, match="Remove the softmax at the end of the"):
            method(X, y)


def test_the_warning_is_worth_following():
    """Without the softmax, the same network becomes confident."""
    net = NeuralClassifier(EndsIn, module__layer=nn.Softmax(dim=1), **SEEDED)
    net.set_params(batch_size=32, lr=0.03)
    with pytest.warns(UserWarning, match="look like probabilities"):
        squashed = net.fit(X, y).predict_proba(X)
    # The softmax of probabilities never exceeds e / (e + n_classes - 1).
    assert squashed.max() < np.e / (np.e + 2) + 1e-6
    net.set_params(module__layer=nn.Identity())
    assert net.fit(X, y).predict_proba(X).max() > 0.9
