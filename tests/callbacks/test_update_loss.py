"""When, and with which predictions, a loss is updated during training."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from skorch.callbacks import Callback

from sklearn_calib import NeuralClassifier
from sklearn_calib.callbacks import UpdateLoss
from sklearn_calib.losses import CrossEntropyLoss

# 200 training samples and 100 validation samples: 4 batches per epoch.
X, y = make_classification(n_samples=300, n_informative=5, n_classes=3, random_state=0)
LABELS = np.array(["ant", "bee", "cow"])[y]


class Learner(CrossEntropyLoss):
    """Cross-entropy that records its updates, and counts its resets."""

    learns_from_validation = True

    def __init__(self, *, min_updates=0):
        super().__init__()
        self.min_updates = min_updates
        self.seen, self.n_resets = [], 0

    def update(self, y_true, y_proba, *, sample_weight=None):
        self.seen.append((y_true, y_proba, sample_weight))
        return {"n_updates": [float(len(self.seen))]}

    def start_epoch(self):
        self.n_resets += 1


class ForwardPasses(Callback):
    """Count forward passes, and make predictions after each epoch."""

    def on_train_begin(self, net, **kwargs):
        self.n_rows, self.proba = 0, []
        net.module_.register_forward_hook(lambda *args: self.count(args[-1]))

    def count(self, outputs):
        self.n_rows += len(outputs)

    def on_epoch_end(self, net, dataset_valid=None, **kwargs):
        n_rows, self.valid_rows = self.n_rows, dataset_valid.indices
        self.proba.append(net.predict_proba(dataset_valid))
        self.n_rows = n_rows


def test_a_second_one_would_update_twice():
    with pytest.raises(
        ValueError, match=r"a second UpdateLoss, .* got \['.*'\]\. Set call"
    ):
        fit(callbacks=[UpdateLoss(2)])


def test_a_pickled_network_holds_no_data():
    """The callback keeps no reference to the validation set or the whole dataset."""
    net = fit()
    dataset = dict(net.callbacks_)["update_loss"].dataset_valid_
    assert dataset is None
    marked = X.astype("f4")[7].tobytes()
    assert marked not in pickle.dumps(net)


@pytest.mark.parametrize("update_every", ["epoch", 1])
def test_a_network_that_diverges_is_warned_of(update_every):
    """The warning is the same as for other losses, although there is no update."""
    for n_units in (4, 100):  # to infinite logits, and to NaN
        params = {"optimizer": torch.optim.SGD, "lr": 1e30, "max_epochs": 2}
        with pytest.warns(ConvergenceWarning, match="The training loss is nan"):
            net = fit(update_every, module__hidden_sizes=(n_units,), **params)
        assert len(net.history_) == 2
        assert len(net.criterion_.seen) < 2


def fit(
    update_every="epoch",
    *,
    max_epochs=3,
    sample_weight=None,
    batch_size=50,
    validation_fraction=1 / 3,
    **params,
):
    net = NeuralClassifier(
        loss=Learner,
        max_epochs=max_epochs,
        batch_size=batch_size,
        validation_fraction=validation_fraction,
        random_state=0,
        callbacks__update_loss__update_every=update_every,
        **params,
    )
    return net.fit(X, LABELS, sample_weight=sample_weight)


def test_a_number_of_batches_may_come_from_numpy():
    assert fit(np.int64(2)).history_[:, "n_updates"] == [[2.0], [4.0], [6.0]]


@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_gets_the_validation_set(weighted):
    weight = np.random.default_rng(0).uniform(0.5, 2, 300) if weighted else None
    passes = ForwardPasses()
    net = fit(sample_weight=weight, callbacks=[passes])
    part = passes.valid_rows
    assert len(part) == 100
    for (codes, proba, seen), expected in zip(
        net.criterion_.seen, passes.proba, strict=True
    ):
        np.testing.assert_array_equal(codes, y[part])
        np.testing.assert_allclose(proba, expected, rtol=1e-6)
        if weighted:
            np.testing.assert_array_equal(seen, weight[part])
        else:
            assert seen is None


def test_an_update_an_epoch_needs_no_pass_of_its_own():
    passes = ForwardPasses()
    fit(callbacks=[passes])
    assert passes.n_rows == 3 * 300


def test_updates_between_batches_make_a_pass_each():
    """Four batches per epoch; skorch's validation step follows the last one."""
    passes = ForwardPasses()
    net = fit(2, callbacks=[passes])
    assert len(net.criterion_.seen) == 6
    assert passes.n_rows == 3 * 300 + 3 * 100


def test_batches_are_counted_over_epochs():
    net = fit(6)
    assert len(net.criterion_.seen) == 2
    assert net.history_[:, "n_updates"] == [[1.0], [2.0]]
    assert "n_updates" not in net.history_[0]


def test_schedule():
    net = fit({1: 2, 2: "epoch", 3: 1})
    assert net.history_[:, "n_updates"] == [[2.0], [3.0], [7.0]]


def test_schedule_with_auto():
    net = fit({2: "auto"}, loss__min_updates=6)
    assert net.history_[:, "n_updates"] == [[1.0], [3.0], [5.0]]


def test_before_a_schedule_begins_an_update_follows_each_epoch():
    assert fit({3: 2}).history_[:, "n_updates"] == [[1.0], [2.0], [4.0]]


@pytest.mark.parametrize(
    ("min_updates", "max_epochs", "n_held_out", "expected"),
    [
        # A loss that does not accumulate updates, and as many epochs as updates.
        (0, 2, 100, 1),
        (2, 2, 100, 1),
        (3, 2, 100, 2),
        # Updates between batches use as many samples as the training.
        (100, 1, 100, 1 + 200 // 100),
        # In total, at most sqrt(2 * n_valid) updates.
        (100, 1, 6, 4),
        (100, 2, 6, 2),
        (100, 4, 6, 1),
    ],
)
def test_auto_updates_per_epoch(min_updates, max_epochs, n_held_out, expected):
    net = fit(
        "auto",
        loss__min_updates=min_updates,
        max_epochs=max_epochs,
        validation_fraction=n_held_out / 300,
    )
    n_updates = [row["n_updates"] for row in net.history_]
    assert n_updates == [[expected * (1.0 + epoch)] for epoch in range(max_epochs)]


def test_auto_spaces_its_updates_evenly():
    """Two updates in four batches: after two batches, and after the validation step."""
    passes = ForwardPasses()
    net = fit("auto", loss__min_updates=6, callbacks=[passes])
    for ours, theirs in zip(net.criterion_.seen, fit(2).criterion_.seen, strict=True):
        np.testing.assert_array_equal(ours[1], theirs[1])
    assert passes.n_rows == 3 * 300 + 3 * 100


def test_auto_updates_after_each_batch_at_most():
    net = fit("auto", loss__min_updates=9, batch_size=200, max_epochs=3)
    assert net.history_[:, "n_updates"] == [[1.0], [2.0], [3.0]]


@pytest.mark.parametrize("update_every", ["auto", "epoch", 3])
def test_the_recorded_gaps_give_the_gammas(update_every):
    """By the rule of AdaFocal, from one recorded update to the next."""
    net = NeuralClassifier(
        loss="adafocal",
        max_epochs=4,
        batch_size=20,
        random_state=0,
        callbacks__update_loss__update_every=update_every,
    ).fit(X, LABELS)
    batches = [row for epoch in net.history_ for row in epoch["batches"]]
    updates = [row for row in batches if "gamma" in row]
    assert len(updates) == {"auto": 8, "epoch": 4, 3: 18}[update_every]
    gamma = 1.0
    for row in updates:
        (confidence,), (accuracy,) = row["bin_confidence"], row["bin_accuracy"]
        sign = np.sign(gamma)
        gamma = np.clip(gamma * np.exp(sign * 20 * (confidence - accuracy)), -2, 20)
        gamma = gamma if abs(gamma) >= 0.2 else -0.2 * sign
        assert row["gamma"] == pytest.approx([gamma], rel=1e-5)
    assert net.history_[-1]["gamma"] == updates[-1]["gamma"]


def test_auto_is_the_default():
    assert UpdateLoss().update_every == "auto"


def test_updates_between_batches_change_nothing_else():
    """Updates of a loss without state do not change training, even with dropout."""
    proba = [fit(every, module__dropout=0.5).predict_proba(X) for every in ("epoch", 1)]
    np.testing.assert_array_equal(*proba)


def test_a_loss_with_reset_starts_each_epoch_anew():
    assert fit().criterion_.n_resets == 3


@pytest.mark.parametrize(
    "update_every",
    [
        *(0, -1, 1.5, True, "batch", None, np.array([1, 2])),
        *({}, {0: 1}, {"a": 1}, {1: 0}, {1: np.array(["epoch", "epoch"])}),
    ],
)
def test_bad_update_every(update_every):
    with pytest.raises(
        ValueError, match="update_every must be 'auto', 'epoch', a positive"
    ):
        fit(update_every)


def test_a_loss_that_does_not_learn_is_left_alone():
    net = NeuralClassifier(max_epochs=1, validation_fraction=0.2).fit(X, y)
    assert "update_loss" in dict(net.callbacks_)
    assert isinstance(dict(net.callbacks_)["update_loss"], UpdateLoss)
