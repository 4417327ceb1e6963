"""Networks use as many of torch's threads as their work is worth."""

import multiprocessing
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_classification
from skorch.callbacks import Callback
from torch import nn

from sklearn_calib import NeuralClassifier, RefCalClassifier
from sklearn_calib.estimators import ConvNet

X, y = make_classification(300, n_informative=6, n_classes=3, random_state=0)


class Note(Callback):
    """Note the number of threads after each batch."""

    def on_train_begin(self, *args, **kwargs):
        self.numbers = []

    def on_batch_end(self, *args, **kwargs):
        self.numbers.append(torch.get_num_threads())


NET = NeuralClassifier(
    module__hidden_sizes=(4,),
    max_epochs=2,
    batch_size=100,
    random_state=0,
    callbacks=[Note],
)
# 250,000 weights, so 100 samples are worth one thread.
WIDE = {"module__hidden_sizes": (250, 900)}


@pytest.fixture(autouse=True)
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def numbers_of(net):
    return dict(net.callbacks_)["Note"].numbers


def in_new_thread(call):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result(timeout=60)


def test_a_small_network_uses_one_thread():
    net = clone(NET).fit(X, y)
    assert numbers_of(net) == [1] * 6
    assert torch.get_num_threads() == in_new_thread(torch.get_num_threads) == 4
    assert numbers_of(net.fit(X, y)) == [1] * 6
    assert numbers_of(net.partial_fit(X, y)) == [1] * 3


def test_convolutions_of_images_use_all_threads():
    images = np.random.default_rng(0).normal(size=(300, 1, 20, 20))
    net = clone(NET).set_params(module=ConvNet, max_epochs=1)
    del net.module__hidden_sizes
    assert numbers_of(net.fit(images, y)) == [4] * 3


class Flat(nn.Sequential):
    """A module of images, or of their pixels in a dict."""

    def __init__(self, n_classes):
        super().__init__(nn.Flatten(), nn.Linear(400, 100), nn.Linear(100, n_classes))

    def forward(self, X=None, pixels=None):
        return super().forward(X if pixels is None else pixels)


@pytest.mark.parametrize("shape", [(300, 1, 20, 20), (300, 400)])
def test_layers_of_flattened_images_use_one_thread(shape):
    images = np.random.default_rng(0).normal(size=shape)
    net = NeuralClassifier(Flat, max_epochs=1, random_state=0, callbacks=[Note])
    given = images if len(shape) > 2 else {"pixels": images}
    assert {*numbers_of(net.fit(given, y))} == {1}


@pytest.mark.skipif(
    sys.platform != "linux" or torch.cuda.is_available(),
    reason="needs Linux, and no CUDA: a process cannot be forked after it is used",
)
# Python warns that a process with threads is forked, which is what is tested.
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_small_network_fits_in_a_forked_process():
    torch.ones(1000, 1000) @ torch.ones(1000, 1000)  # starts torch's threads
    net = clone(NET).set_params(max_epochs=1, batch_size=-1)
    worker = multiprocessing.get_context("fork").Process(
        target=lambda: os._exit(net.fit(X, y).module_ is None)
    )
    worker.start()
    worker.join(timeout=20)
    worker.kill()
    assert worker.exitcode == 0


def test_the_number_grows_with_the_work():
    net = clone(NET).set_params(**WIDE, batch_size=-1, max_epochs=1)
    net.fit(X[:150], y[:150])
    assert numbers_of(net) == [2]
    net.fit(X, y)
    assert numbers_of(net) == [3]


def test_more_threads_than_torch_has_are_not_used():
    torch.set_num_threads(1)
    net = clone(NET).set_params(**WIDE, batch_size=-1, max_epochs=1).fit(X, y)
    assert {*numbers_of(net)} == {1}
    net.set_params(n_threads=3).fit(X, y)
    assert {*numbers_of(net)} == {1}


def test_the_number_can_be_set():
    net = clone(NET).set_params(max_epochs=1, batch_size=150)
    assert numbers_of(net.set_params(n_threads=4).fit(X, y)) == [4] * 2
    assert numbers_of(net.set_params(n_threads=2).fit(X, y)) == [2] * 2
    for wrong in (0, -1, 1.5, "all", True):
        with pytest.raises(ValueError, match="'n_threads' parameter"):
            clone(NET).set_params(n_threads=wrong).fit(X, y)


class Numbers(nn.Linear):
    """A module that returns the number of threads as logits."""

    def __init__(self, n_features, n_classes):
        super().__init__(n_features, n_classes)

    def forward(self, X):
        logits = super().forward(X)
        return logits if self.training else 0 * logits + torch.get_num_threads()


def test_predictions_use_one_thread_too():
    net = NeuralClassifier(Numbers, max_epochs=1, random_state=0).fit(X, y)
    assert (net._logits(X) == 1).all()
    assert torch.get_num_threads() == 4
    assert (net.set_params(n_threads=2)._logits(X) == 2).all()
    assert torch.get_num_threads() == 4


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_the_number_is_restored_after_an_error(error):
    class Fail(Callback):
        def on_epoch_end(self, *args, **kwargs):
            assert torch.get_num_threads() == 1
            raise error

    with pytest.raises(error):
        clone(NET).set_params(callbacks=[Fail()]).fit(X, y)
    assert torch.get_num_threads() == in_new_thread(torch.get_num_threads) == 4


def test_the_number_changes_results_by_rounding_only():
    params = {**WIDE, "batch_size": -1, "max_epochs": 1, "dtype": "float64"}
    net = clone(NET).set_params(**params)
    proba = net.fit(X, y).predict_proba(X)
    single = net.set_params(n_threads=1).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(proba, single, rtol=1e-10)


def test_threads_of_one_process_do_not_disturb_each_other():
    may_end, is_training = threading.Event(), threading.Event()

    class Wait(Callback):
        def on_epoch_end(self, *args, **kwargs):
            is_training.set()
            may_end.wait(timeout=60)

    waiting = clone(NET).set_params(callbacks=[Wait()], random_state=None)
    with ThreadPoolExecutor(1) as pool:
        fit = pool.submit(waiting.fit, X, y)
        try:
            assert is_training.wait(timeout=60)
            assert torch.get_num_threads() == in_new_thread(torch.get_num_threads) == 4
            net = clone(NET).set_params(**WIDE, batch_size=-1, random_state=None)
            assert numbers_of(in_new_thread(lambda: net.fit(X, y))) == [3] * 2
        finally:
            may_end.set()
        fit.result(timeout=60)
    assert torch.get_num_threads() == in_new_thread(torch.get_num_threads) == 4


def test_many_nets_in_threads_leave_the_number_alone():
    nets = [clone(NET).set_params(random_state=None) for _ in range(6)]
    with ThreadPoolExecutor(3) as pool:
        for net in pool.map(lambda net: net.fit(X, y), nets):
            assert numbers_of(net) == [1] * 6
    assert torch.get_num_threads() == in_new_thread(torch.get_num_threads) == 4


def test_refcal():
    model = RefCalClassifier(
        refine__max_epochs=1, head__max_epochs=1, random_state=0, head__callbacks=[Note]
    ).fit(X, y)
    assert {*numbers_of(model.head_)} == {1}
    model.predict(X)
    assert torch.get_num_threads() == 4
    model.set_params(head__n_threads=3).fit(X, y)
    assert {*numbers_of(model.head_)} == {3}


def test_the_encoder_of_augment_head_has_its_own_number():
    seen = []

    class Encoder(nn.Sequential):
        def __init__(self, n_features):
            super().__init__(nn.Linear(n_features, 900), nn.Linear(900, 900))

        def forward(self, X):
            seen.append((torch.get_num_threads(), len(X)))
            return super().forward(X)

    RefCalClassifier(
        Encoder, augment_head=lambda X: X[:, None], random_state=0,
        refine__max_epochs=1, head__max_epochs=1, head__batch_size=20,
        head__callbacks=[Note],
    ).fit(X[:60], y[:60])  # fmt: skip
    # 1.75 million weights, half of them in the projection.
    assert seen[-2:] == [(2, 20)] * 2
