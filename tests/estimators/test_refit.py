"""A second run on all data, after one with a validation set."""

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification
from skorch.callbacks import (
    Callback,
    Checkpoint,
    EarlyStopping,
    EpochScoring,
    LoadInitState,
    LRScheduler,
)

from sklearn_calib import NeuralClassifier
from sklearn_calib.losses import CrossEntropyLoss

X, y = make_classification(n_samples=200, n_informative=5, n_classes=3, random_state=0)


class Counter(CrossEntropyLoss):
    """Cross-entropy that counts its updates."""

    learns_from_validation = True

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def update(self, *args, **kwargs):
        self.count += 1


class Watch(Callback):
    """Record the state of the loss and the number of samples of each epoch."""

    def on_train_begin(self, *args, **kwargs):
        self.epochs = []

    def on_epoch_begin(self, net, dataset_train=None, **kwargs):
        self.epochs.append((net.criterion_.count.item(), len(dataset_train)))


def make_net(**params):
    return NeuralClassifier(random_state=0, refit=True, max_epochs=3).set_params(
        **params
    )


def test_the_second_run_has_all_data_and_the_states_of_the_first():
    net = make_net(loss=Counter, callbacks=[Watch()]).fit(X, y)
    assert dict(net.callbacks_)["Watch"].epochs == [(epoch, 200) for epoch in range(3)]
    assert len(net.validation_history_[:, "valid_log_loss"]) == 3
    assert "valid_log_loss" not in net.history_[-1]


def test_without_a_state_it_is_a_run_without_validation_data():
    net = make_net(validation_fraction=0.2).fit(X, y)
    plain = NeuralClassifier(random_state=0, max_epochs=3).fit(X, y)
    np.testing.assert_array_equal(net.predict_proba(X), plain.predict_proba(X))


def test_nothing_held_out_nothing_to_repeat():
    net = make_net().fit(X, y)
    assert not hasattr(net, "validation_history_")
    assert len(net.history_) == 3


def test_a_later_fit_forgets_the_validation_history():
    net = make_net(validation_fraction=0.2).fit(X, y)
    net.set_params(refit=False).fit(X, y)
    assert not hasattr(net, "validation_history_")


def test_early_stopping_gives_the_number_of_epochs():
    net = make_net(
        early_stopping=True,
        n_iter_no_change=3,
        lr=0.02,
        max_epochs=100,
        validation_fraction=0.3,
    ).fit(X, y)
    losses = net.validation_history_[:, "valid_log_loss"]
    assert len(losses) < 100
    assert len(net.history_) == np.argmin(losses) + 1


def test_weights_and_settings_hold_in_both_runs():
    weight = np.arange(200) % 3
    net = make_net(loss=Counter).fit(X, y, sample_weight=weight)
    assert net.history_[-1, "batches", :, "train_batch_size"] == [128, 5]


def test_warm_start_has_no_start_to_go_back_to():
    with pytest.raises(ValueError, match="refit must be False with warm_start"):
        make_net(warm_start=True).fit(X, y)


@pytest.mark.parametrize(
    "callback",
    [
        Checkpoint(),
        EarlyStopping("valid_acc"),
        EarlyStopping("balanced", lower_is_better=False),
        LoadInitState(Checkpoint()),
        LRScheduler("ReduceLROnPlateau", monitor="valid_loss"),
    ],
    ids=lambda callback: type(callback).__name__,
)
def test_a_callback_that_cannot_go_through_both_runs(callback):
    """The error is raised before the first run."""
    watch, score = Watch(), EpochScoring("balanced_accuracy", name="balanced")
    callbacks = [score, ("mine", callback), watch]
    net = make_net(validation_fraction=0.2, callbacks=callbacks)
    with pytest.raises(
        ValueError, match=r"refit must be False with the callback 'mine'"
    ):
        net.fit(X, y)
    assert not hasattr(watch, "epochs")


def test_early_stopping_by_a_score_of_the_training_data():
    score = EpochScoring("accuracy", lower_is_better=False, on_train=True, name="own")
    stop = EarlyStopping("own", lower_is_better=False)
    net = make_net(validation_fraction=0.2, callbacks=[score, stop]).fit(X, y)
    assert len(net.history_) == len(net.validation_history_) == 3


def test_a_loss_with_a_history_and_a_base_that_learns():
    """Each run has its own history; the gammas are those of the first run."""
    net = make_net(loss="crl", loss__base="adafocal", loss__base__n_bins=3).fit(X, y)
    assert net.criterion_.history.shape == (200, 2)
    assert (net.criterion_.history[:, 1] == 3).all()
    last = net.validation_history_[-2, "gamma"]  # the last epoch trained with these
    np.testing.assert_allclose(net.criterion_.base_.gamma, last, rtol=1e-6)


def test_partial_fit_cannot_learn():
    net = NeuralClassifier(loss=Counter)
    with pytest.raises(ValueError, match="Counter must have validation data to learn"):
        net.partial_fit(X, y, classes=[0, 1, 2])
