"""Predictions: one row for each row of X, in its order; epochs with mini-batches."""

from copy import deepcopy
from functools import cache, partial

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset

from sklearn_calib import (
    CalibratedClassifier,
    NeuralClassifier,
    RefCalClassifier,
    TemperatureScaling,
)
from sklearn_calib.estimators import iterate_batches

X = np.random.default_rng(0).normal(size=(23, 4)).astype("float32")
y = np.arange(23) % 2
BACKWARDS = [*range(23)][::-1]
NET = NeuralClassifier(
    module__hidden_sizes=(), max_epochs=1, batch_size=8, random_state=0
)
FITTED = clone(NET).fit(X, y)
METHODS = ("predict", "predict_proba", "decision_function", "forward")


def refcal(**params):
    stages = {"refine__batch_size": 8, "head__batch_size": 8}
    epochs = {"refine__max_epochs": 1, "head__max_epochs": 1}
    encoder = {"encoder__hidden_sizes": (4,), "n_projection": 2}
    return RefCalClassifier(random_state=0, **stages, **epochs, **encoder, **params)


@cache
def _fitted_refcal():
    return refcal().fit(X, y)


def fitted_refcal():
    return deepcopy(_fitted_refcal())


def of_stage(stage, params):
    return {f"{stage}__{name}": value for name, value in params.items()}


class Stream(IterableDataset):
    def __iter__(self):
        return zip(X, y, strict=True)


def first_half(dataset, batch_size):
    return DataLoader(Subset(dataset, range(len(dataset) // 2)), batch_size)


# Options that do not keep the order -----------------------------------------------

OPTIONS = {
    "shuffle": True,
    "drop_last": True,
    "sampler": BACKWARDS,
    "batch_sampler": [BACKWARDS],
    "in_order": False,
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_that_lose_the_order_are_refused_before_training(name):
    given = {f"iterator_valid__{name}": OPTIONS[name]}
    net = clone(NET).set_params(**given)
    calls = [
        lambda: net.fit(X, y),
        lambda: net.partial_fit(X, y, classes=[0, 1]),
        lambda: NeuralClassifier(torch.nn.Linear(4, 2), **given).initialize([0, 1]),
        lambda: CalibratedClassifier(net, TemperatureScaling(), cv=2).fit(X, y),
        lambda: refcal(**of_stage("refine", given)).fit(X, y),
        lambda: refcal(**of_stage("head", given)).fit(X, y),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=f"iterator_valid__{name} must be .*, got"):
            call()


@pytest.mark.parametrize(
    "params",
    [
        {"iterator_valid__shuffle": True},
        {"iterator_valid__drop_last": True},
        {"iterator_valid__sampler": BACKWARDS},
        {"iterator_valid": partial(iterate_batches, shuffle=True)},
        {"iterator_valid": partial(DataLoader, shuffle=True)},
        {"iterator_valid": partial(DataLoader, drop_last=True)},
        {"iterator_valid": partial(DataLoader, sampler=BACKWARDS)},
        {"iterator_valid": first_half},
        {"iterator_valid": lambda data, batch_size: [*first_half(data, batch_size)]},
    ],
)
def test_each_prediction_refuses_other_rows(params):
    inputs = X, TensorDataset(torch.tensor(X), torch.tensor(y))
    net, head, encoder = deepcopy(FITTED), fitted_refcal(), fitted_refcal()
    for changed in (net, head.head_, encoder.refiner_):
        changed.set_params(**params)
    calls = [
        *(partial(getattr(net, name), data) for name in METHODS for data in inputs),
        *(partial(getattr(head, name), X) for name in METHODS[:3]),
        *(partial(getattr(encoder, name), X) for name in (*METHODS[:3], "transform")),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"iterator_valid .*must return"):
            call()


@pytest.mark.parametrize("function", [iterate_batches, DataLoader])
def test_functions_that_lose_the_order_are_refused_before_training(function):
    def train(*batch):
        raise AssertionError("It was trained.")

    given = {"iterator_valid": partial(function, shuffle=True)}
    net = clone(NET).set_params(batch_transform=train, **given)
    data = TensorDataset(torch.tensor(X), torch.tensor(y))
    calls = [
        lambda: net.fit(X, y),
        lambda: net.partial_fit(X, y, classes=[0, 1]),
        lambda: net.fit(data, classes=[0, 1]),
        lambda: refcal(augment=train, **of_stage("refine", given)).fit(X, y),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="iterator_valid must return all samples"):
            call()


def test_options_that_keep_the_order():
    wanted = FITTED.predict_proba(X)
    for params in [
        {"iterator_valid__num_workers": 0},
        {"iterator_valid__shuffle": False, "iterator_valid__sampler": None},
        {"iterator_valid": DataLoader},
    ]:
        net = clone(NET).set_params(**params).fit(X, y)
        for data in (X, TensorDataset(torch.tensor(X), torch.tensor(y)), Stream()):
            np.testing.assert_allclose(net.predict_proba(data), wanted, rtol=1e-6)


def test_a_forward_pass_in_training_mode_keeps_the_order():
    net = clone(NET).fit(X, y)
    wanted = net.forward(X)
    net.set_params(iterator_train__shuffle=True, iterator_train__drop_last=True)
    torch.testing.assert_close(net.forward(X, training=True), wanted)


def test_workers_of_a_stream_repeat_its_samples():
    net = clone(NET).set_params(iterator_valid__num_workers=2).fit(X, y)
    with pytest.raises(ValueError, match="IterableDataset with at most one worker"):
        net.predict(Stream())


def test_a_dataset_of_whole_batches():
    chunks = [(X[:10], y[:10]), (X[10:], y[10:])]
    loaders = {"iterator_train": DataLoader, "iterator_valid": DataLoader}
    sizes = {"iterator_train__batch_size": None, "iterator_valid__batch_size": None}

    class Chunks(torch.utils.data.Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, i):
            return chunks[i]

    net = clone(NET).set_params(**loaders, **sizes).fit(Chunks(), classes=[0, 1])
    assert net.predict(Chunks()).shape == (23,)


# Epochs without a mini-batch --------------------------------------------------------

FEW = {"iterator_train__drop_last": True, "batch_size": 32}


@pytest.mark.parametrize(
    "train",
    [
        lambda: clone(NET).set_params(**FEW).fit(X, y),
        lambda: clone(NET).set_params(**FEW).partial_fit(X, y, classes=[0, 1]),
        lambda: clone(NET).set_params(**FEW).fit(X, y, X_val=X, y_val=y),
        lambda: (
            clone(NET)
            .set_params(**FEW)
            .fit(TensorDataset(torch.tensor(X), torch.tensor(y)), classes=[0, 1])
        ),
        lambda: clone(NET).set_params(**FEW).fit(Stream(), classes=[0, 1]),
        lambda: refcal().set_params(**of_stage("refine", FEW)).fit(X, y),
        lambda: refcal().set_params(**of_stage("head", FEW)).fit(X, y),
    ],
)
def test_an_epoch_without_a_batch_is_refused(train):
    message = (
        r"iterator_train must return at least one mini-batch .* got none of .* with "
        r"drop_last=True and batch_size=32\. .* remove .*iterator_train__drop_last"
    )
    with pytest.raises(ValueError, match=message):
        train()


def test_an_iterator_without_a_batch_is_refused():
    net = clone(NET).set_params(
        iterator_train__sampler=[], iterator_train__shuffle=False
    )
    with pytest.raises(ValueError, match=r"iterator_train must .* none of 23 samples"):
        net.fit(X, y)


def test_an_iterator_that_ends_with_the_first_epoch_is_refused():
    def generate(dataset, **options):
        yield from DataLoader(dataset, **options)

    net = clone(NET).set_params(iterator_train=generate, max_epochs=1).fit(X, y)
    with pytest.raises(ValueError, match=r"iterator_train must .* Return a DataLoader"):
        net.set_params(max_epochs=2).fit(X, y)
