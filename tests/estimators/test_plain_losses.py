"""Losses that do not inherit from `CalibrationLoss`."""

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification
from torch import nn

from sklearn_calib import NeuralClassifier
from sklearn_calib.losses import CalibrationLoss, CrossEntropyLoss

X, y = make_classification(n_samples=100, n_informative=4, random_state=0)


class Plain(nn.CrossEntropyLoss):
    """A loss of the user's with methods that have nothing to do with training."""

    learns_from_validation = needs_indices = True

    def __init__(self):
        super().__init__()
        self.n_seen = 0

    def forward(self, logits, target):
        self.n_seen += len(target)
        return super().forward(logits, target)

    def update(self, *args, **kwargs):
        raise AssertionError

    reset = start_epoch = start_history = record = posterior = update


class Learner(CrossEntropyLoss):
    """Loss that declares that it learns."""

    learns_from_validation = True

    def update(self, y_true, y_proba, *, sample_weight=None):  # noqa: ARG002
        return {"n_validated": len(y_true)}


def test_a_plain_loss_keeps_all_of_its_data_and_is_not_called():
    net = NeuralClassifier(loss=Plain, max_epochs=2, random_state=0)
    with pytest.warns(UserWarning, match="update of the loss Plain.*CalibrationLoss"):
        net.fit(X, y)
    assert net.criterion_.n_seen == 2 * len(X)
    assert "valid_loss" not in net.history[-1]


def test_a_plain_loss_equals_torchs():
    nets = [
        NeuralClassifier(loss=loss, max_epochs=2, random_state=0)
        for loss in (Plain, nn.CrossEntropyLoss)
    ]
    with pytest.warns(UserWarning, match="CalibrationLoss"):
        nets[0].fit(X, y)
    nets[1].fit(X, y)
    np.testing.assert_array_equal(*(net.predict_proba(X) for net in nets))


def test_a_subclass_is_asked():
    net = NeuralClassifier(loss=Learner, max_epochs=1, random_state=0).fit(X, y)
    assert net.history[-1]["n_validated"] == 10


def test_a_subclass_that_does_not_declare_its_update_is_warned_of():
    class Silent(CrossEntropyLoss):
        update = Plain.update

    net = NeuralClassifier(loss=Silent, max_epochs=1, random_state=0)
    with pytest.warns(UserWarning, match="update of the loss Silent is not called"):
        net.fit(X, y)
    assert "valid_loss" not in net.history[-1]


def test_a_plain_loss_determines_no_posterior():
    net = NeuralClassifier(loss=Plain, posterior=True, max_epochs=1)
    with (
        pytest.warns(UserWarning, match="CalibrationLoss"),
        pytest.raises(ValueError, match="posterior must be False for the loss Plain"),
    ):
        net.fit(X, y)


def test_losses_without_a_declaration_do_nothing():
    """The defaults of the protocol are those of a loss that declares nothing."""
    loss = CalibrationLoss.of(nn.Module())
    assert not loss.learns_from_validation
    assert not loss.needs_indices
    assert loss.update([0], [[1.0, 0.0]]) == {}
    assert loss.start_epoch() is loss.start_history(3) is None
    assert loss.record(torch.zeros(1, 2), torch.zeros(1), indices=None) is None
    with pytest.raises(NotImplementedError, match="posterior"):
        loss.posterior(np.ones((1, 2)) / 2)
