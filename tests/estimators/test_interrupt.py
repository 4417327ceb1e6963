"""An interrupt ends training, and no partial result is taken for a final one."""

import os
import runpy
import signal
import sys
import threading
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from joblib import Memory
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV, cross_val_score
from skorch.callbacks import Callback, EarlyStopping

from sklearn_calib import (
    CalibratedClassifier,
    NeuralClassifier,
    RefCalClassifier,
    SelectiveClassifier,
    TemperatureScaling,
)
from sklearn_calib.estimators import MLP

SCRIPT = Path(__file__).with_name("train_until_interrupt.py")
X, y = make_classification(n_samples=120, n_informative=6, n_classes=3, random_state=0)


class Interrupt(Callback):
    """Ctrl-C at the end of one epoch of one training; counts what is trained.

    What it counts belongs to the class, since estimators copy their callbacks.
    """

    at = None
    n_trainings = n_ends = 0

    def __init__(self, way="raise"):
        self.way = way

    def on_train_begin(self, *args, **kwargs):
        type(self).n_trainings += 1

    def on_epoch_end(self, net, **kwargs):
        if (self.n_trainings, len(net.history)) == self.at:
            if self.way == "raise":
                raise KeyboardInterrupt
            signal.raise_signal(signal.SIGINT)

    def on_train_end(self, *args, **kwargs):
        type(self).n_ends += 1


@pytest.fixture(autouse=True)
def interrupt():
    """Return what says in which training and epoch an interrupt comes.

    Python raises no KeyboardInterrupt if SIGINT was ignored when it started, as in a
    job in the background.
    """

    def arm(training, epoch):
        Interrupt.at = training, epoch
        Interrupt.n_trainings = Interrupt.n_ends = 0

    arm(None, None)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield arm
    signal.signal(signal.SIGINT, handler)


def make_net(**params):
    params = {"max_epochs": 6, "random_state": 0, "callbacks": [Interrupt()]} | params
    params = {"module__hidden_sizes": (8,), "lr": 0.1} | params
    return NeuralClassifier(module__dropout=0.2, **params)


def fails(function, *args, **kwargs):
    with pytest.raises(KeyboardInterrupt):
        function(*args, **kwargs)


@pytest.mark.parametrize("way", ["raise", "signal"])
def test_fit_ends_and_the_net_predicts_with_the_weights_of_that_moment(interrupt, way):
    interrupt(1, 3)
    net = make_net(callbacks=[Interrupt(way)])
    fails(net.fit, X, y)
    assert net.interrupted_
    assert Interrupt.n_ends == 1
    shorter = make_net(max_epochs=3).fit(X, y)
    assert not shorter.interrupted_
    np.testing.assert_array_equal(net.predict_proba(X), shorter.predict_proba(X))


class Fragile(MLP):
    """A network that is interrupted in the middle of a step."""

    n_left = 0

    def forward(self, X):
        type(self).n_left -= 1
        if self.n_left == 0:
            raise KeyboardInterrupt
        return super().forward(X)


def test_an_interrupt_in_the_middle_of_an_epoch():
    Fragile.n_left = 5  # in the second epoch of three batches
    net = make_net(module=Fragile, batch_size=40)
    fails(net.fit, X, y)
    assert net.interrupted_
    assert len(net.history_) == 2
    assert net.predict_proba(X).shape == (120, 3)


def test_the_next_fit_is_whole(interrupt):
    interrupt(1, 2)
    net = make_net()
    fails(net.fit, X, y)
    net.fit(X, y)
    assert not net.interrupted_
    assert len(net.history_) == 6
    expected = make_net().fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(net.predict_proba(X), expected)


@pytest.mark.parametrize("go_on", ["warm_start", "partial_fit"])
def test_training_goes_on_where_it_was_interrupted(interrupt, go_on):
    interrupt(2, 5)
    if go_on == "warm_start":
        net = make_net(warm_start=True, max_epochs=3).fit(X, y)
        fails(net.fit, X, y)
        net.set_params(max_epochs=1).fit(X, y)
    else:
        interrupt(5, 5)
        net = make_net()
        for _ in range(4):
            net.partial_fit(X, y, classes=np.unique(y))
        fails(net.partial_fit, X, y)
        assert net.interrupted_
        net.partial_fit(X, y)
    assert not net.interrupted_
    assert len(net.history_) == 6
    expected = make_net().fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(net.predict_proba(X), expected)


def test_an_interrupt_before_the_first_epoch_leaves_the_net_as_it_was(monkeypatch):
    net = make_net().fit(X, y)
    expected = net.predict_proba(X)

    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    for method in ("initialize_optimizer", "get_split_datasets"):
        with monkeypatch.context() as patch:
            patch.setattr(NeuralClassifier, method, stop)
            fails(net.fit, X[:, :4], y)
        np.testing.assert_array_equal(net.predict_proba(X), expected)
        assert not net.interrupted_


def test_early_stopping_is_no_interrupt():
    for params in (
        {"early_stopping": True, "n_iter_no_change": 2},
        {"callbacks": [EarlyStopping("train_loss", patience=2)]},
    ):
        net = make_net(max_epochs=200, lr=0.3, **params).fit(X, y)
        assert len(net.history_) < 200
        assert not net.interrupted_


def test_interrupted_while_it_watches_for_an_early_stop(interrupt):
    """The best weights so far are restored, as at any end of training."""
    interrupt(1, 4)  # before early stopping sees the epoch
    net = make_net(early_stopping=True)
    fails(net.fit, X, y)
    assert net.interrupted_
    best = 1 + int(np.argmin(net.history_[:3, "valid_log_loss"]))
    whole = make_net(validation_fraction=0.1, max_epochs=best).fit(X, y)
    np.testing.assert_array_equal(net.predict_proba(X), whole.predict_proba(X))


def test_no_second_run_after_an_interrupt_in_the_first(interrupt):
    interrupt(1, 2)
    net = make_net(refit=True, validation_fraction=0.2)
    fails(net.fit, X, y)
    assert Interrupt.n_trainings == 1
    assert not hasattr(net, "validation_history_")
    interrupt(2, 2)
    fails(net.fit, X, y)
    assert len(net.validation_history_) == 6
    assert len(net.history_) == 2


def test_seeds_and_locks_are_given_back(interrupt):
    interrupt(1, 2)
    state = torch.get_rng_state()
    fails(make_net().fit, X, y)
    torch.testing.assert_close(torch.get_rng_state(), state)
    thread = threading.Thread(target=make_net().fit, args=(X, y), daemon=True)
    thread.start()
    thread.join(timeout=60)
    assert not thread.is_alive()


# Searches and memory -----------------------------------------------------------------


def test_a_search_ends_inside_a_fold(interrupt):
    interrupt(2, 3)
    search = GridSearchCV(make_net(), {"lr": [0.01, 0.1]}, cv=2)
    fails(search.fit, X, y)
    assert Interrupt.n_trainings == 2
    assert not hasattr(search, "cv_results_")
    interrupt(2, 3)
    fails(cross_val_score, make_net(), X, y, cv=3)
    assert Interrupt.n_trainings == 2


def make_refcal(**params):
    return RefCalClassifier(
        n_projection=8,
        random_state=0,
        encoder__hidden_sizes=(8,),
        refine__max_epochs=3,
        head__max_epochs=3,
        refine__callbacks=[Interrupt()],
        head__callbacks=[Interrupt()],
        **params,
    )


def make_calibrated(**params):
    net = make_net(max_epochs=2)
    return CalibratedClassifier(net, TemperatureScaling(), cv=2, n_repeats=1, **params)


def make_selective(**params):
    calibrated = make_calibrated(**params)
    return SelectiveClassifier(calibrated, coverage=0.5, abstain_label=-1, cv=2)


@cache
def proba_of(make):
    """Return the predictions of a model that was not interrupted."""
    return make().fit(X, y).predict_proba(X)


@pytest.mark.parametrize("training", [1, 2])
@pytest.mark.parametrize("make", [make_calibrated, make_selective, make_refcal])
def test_nothing_half_done_is_remembered(interrupt, tmp_path, make, training):
    expected = proba_of(make)
    memory = Memory(tmp_path, verbose=0)
    interrupt(training, 1)
    fails(make(memory=memory).fit, X, y)
    assert Interrupt.n_trainings == training
    interrupt(None, None)
    again = make(memory=memory).fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(X), expected)


def test_stage_1_leaves_nothing_and_stage_2_a_head(interrupt):
    model = make_refcal()
    interrupt(1, 2)
    fails(model.fit, X, y)
    assert not hasattr(model, "head_")
    interrupt(2, 2)
    fails(model.fit, X, y)
    assert model.interrupted_
    shorter = make_refcal().set_params(head__max_epochs=2)
    shorter.fit(X, y)
    expected = shorter.predict_proba(X)
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    interrupt(1, 3)  # the third epoch of the head
    fails(model.partial_fit, X, y)
    assert model.interrupted_
    assert not model.fit(X, y).interrupted_
    kept = model.predict_proba(X)
    interrupt(1, 2)
    fails(clone(model).fit, X, y)
    interrupt(1, 2)
    fails(model.fit, X[:, :9], y)
    np.testing.assert_array_equal(model.predict_proba(X), kept)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT")
def test_ctrl_c_in_a_process_of_its_own(processes, end):
    receiver, sender = processes.Pipe(duplex=False)
    arguments = str(SCRIPT), {"SENDER": sender}, "a process of its own"
    process = processes.Process(target=runpy.run_path, args=arguments)
    process.start()
    sender.close()
    assert receiver.recv() == 1
    os.kill(process.pid, signal.SIGINT)
    while isinstance(last := receiver.recv(), int):
        pass
    assert last == (True, (150, 3))
    assert end(process) == 0
