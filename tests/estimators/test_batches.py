"""Mini-batches sliced from arrays."""

import numpy as np
import pytest
import torch
from sklearn.model_selection import GridSearchCV
from skorch.callbacks import Callback
from skorch.dataset import Dataset
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
)

from sklearn_calib import NeuralClassifier
from sklearn_calib.estimators import iterate_batches


def _dataset(n_samples):
    return Dataset(np.arange(2.0 * n_samples).reshape(-1, 2), np.arange(n_samples))


@pytest.mark.parametrize(
    ("n_samples", "batch_size", "sizes"),
    [
        (6, 3, [3, 3]),
        (7, 3, [3, 4]),
        (8, 3, [3, 3, 2]),
        (1, 3, [1]),
        (2, 3, [2]),
        (3, 1, [1, 1, 1]),
    ],
)
def test_sizes_join_a_single_last_sample(n_samples, batch_size, sizes):
    batches = iterate_batches(_dataset(n_samples), batch_size=batch_size)
    assert [len(y) for _, y in batches] == sizes
    assert len(batches) == len(sizes)


def test_batches_equal_those_of_a_data_loader():
    ours = iterate_batches(_dataset(8), batch_size=3)
    for (X, y), (X_loader, y_loader) in zip(
        ours, DataLoader(_dataset(8), batch_size=3), strict=True
    ):
        torch.testing.assert_close(X, X_loader)
        torch.testing.assert_close(y, y_loader)


def test_shuffling_keeps_rows_together_and_draws_a_new_order():
    batches = iterate_batches(_dataset(50), batch_size=7, shuffle=True)
    orders = []
    for _ in range(2):
        X, y = (torch.cat(part) for part in zip(*batches, strict=True))
        torch.testing.assert_close(X[:, 0], 2 * y.double())
        assert sorted(y.tolist()) == list(range(50))
        orders.append(y.tolist())
    assert orders[0] != orders[1]


def test_nested_subsets_are_resolved():
    subset = Subset(Subset(_dataset(10), [9, 8, 7, 6]), [1, 3])
    ((X, y),) = iterate_batches(subset, batch_size=5)
    assert y.tolist() == [8, 6]
    assert X[:, 0].tolist() == [16.0, 12.0]


def test_weights_follow_their_rows():
    dataset = _dataset(5)
    dataset.sample_weight = np.arange(5) / 10
    for batch in iterate_batches(dataset, batch_size=2, shuffle=True):
        torch.testing.assert_close(batch.sample_weight, batch[1].double() / 10)


def test_read_only_arrays_are_left_alone():
    X = np.zeros((4, 2))
    X.setflags(write=False)
    ((batch, _),) = iterate_batches(Dataset(X, np.arange(4)), batch_size=4)
    batch += 1
    assert X.sum() == 0


def test_options_get_a_data_loader():
    loader = iterate_batches(_dataset(4), batch_size=3, drop_last=True)
    assert [len(y) for _, y in loader] == [3]


class Squares(torch.utils.data.IterableDataset):
    """The squares of 0 to n - 1, in order."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return ((torch.tensor([i * i]), i) for i in range(self.n))


@pytest.mark.parametrize("n_samples", [1, 2, 5, 6, 7])
@pytest.mark.parametrize("batch_size", [1, 2, 3, 7])
def test_all_datasets_have_the_same_batches(n_samples, batch_size):
    X, y = torch.arange(n_samples)[:, None] ** 2, torch.arange(n_samples)
    datasets = [
        Dataset(X.numpy(), y.numpy()),
        TensorDataset(X, y),
        Subset(TensorDataset(X, y), range(n_samples)),
        Squares(n_samples),
    ]
    found = [
        [(X.tolist(), y.tolist()) for X, y in iterate_batches(each, batch_size)]
        for each in datasets
    ]
    assert found == found[:1] * 4


def test_datasets_are_shuffled_as_arrays_are():
    X, y = torch.zeros(50, 2), torch.arange(50)
    orders = []
    for dataset in (Dataset(X.numpy(), y.numpy()), TensorDataset(X, y)):
        torch.manual_seed(0)
        batches = [*iterate_batches(dataset, batch_size=7, shuffle=True)]
        orders.append(torch.cat([y for _, y in batches]))
        assert torch.equal(torch.cat([each.indices for each in batches]), orders[-1])
    assert torch.equal(*orders)


class Negative(Dataset):
    """A dataset with a transformation of its own."""

    def transform(self, X, y):
        return -X, y


def test_a_transformation_of_the_dataset_is_applied():
    ((X, _),) = iterate_batches(Negative(np.ones((3, 2)), np.arange(3)), batch_size=3)
    assert (X == -1).all()


@pytest.mark.parametrize("items", [torch.zeros(4, 2), [{"X": 0.0, "y": 0}] * 4])
def test_a_dataset_of_other_items_is_refused(items):
    class Items(torch.utils.data.Dataset):
        def __len__(self):
            return len(items)

        def __getitem__(self, i):
            return items[i]

    with pytest.raises(TypeError, match="A Dataset must return pairs of a sample"):
        next(iter(iterate_batches(Items(), batch_size=4)))


def test_a_dataset_without_labels_gives_a_placeholder():
    ((X, y),) = iterate_batches(Dataset(np.zeros((3, 2))), batch_size=5)
    assert X.shape == (3, 2)
    assert len(y) == 3


def test_accelerate_does_not_divide_the_batches():
    """It divides a DataLoader, and returns other iterables as they are."""
    kind = {"iterator_train": DataLoader, "iterator_valid": DataLoader}
    net = NeuralClassifier(batch_size=3, **kind)
    dataset = net.get_dataset(np.zeros((8, 2)), np.arange(8))
    for is_training in (True, False):
        batches = net.get_iterator(dataset, training=is_training)
        assert not isinstance(batches, DataLoader)
        assert [len(y) for _, y in batches] == [len(y) for _, y in batches] == [3, 3, 2]
        assert len(batches) == 3


@pytest.mark.parametrize("kind", [iterate_batches, DataLoader])
@pytest.mark.parametrize(
    "options",
    [
        {"sampler": [4, 0, 1, 2, 3]},
        {"sampler": [4, 0, 1, 2, 3], "shuffle": False},
        {"batch_sampler": [[4, 0, 1], [2, 3]]},
    ],
)
def test_a_sampler_draws_the_training_data(options, kind):
    """Its order replaces the default shuffle, and a batch sampler the batch size."""
    net = NeuralClassifier(batch_size=3, max_epochs=1, iterator_train=kind).set_params(
        **{f"iterator_train__{name}": value for name, value in options.items()}
    )
    net.fit(np.eye(8), np.arange(8) % 2)
    assert net.history_[-1, "batches", :, "train_batch_size"] == [3, 2]


def test_without_a_sampler_the_data_are_shuffled():
    """None in a grid of samplers is the default."""
    none = {"iterator_train__sampler": None, "iterator_train__batch_sampler": None}
    net = NeuralClassifier(max_epochs=1, iterator_train=DataLoader, random_state=0)
    losses = [
        net.set_params(**options).fit(np.eye(8), np.arange(8) % 2).history_
        for options in ({"batch_size": 1}, none, {"iterator_train__shuffle": False})
    ]
    losses = [history[-1, "train_loss"] for history in losses]
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.parametrize("kind", [iterate_batches, DataLoader])
@pytest.mark.parametrize(
    "sampler",
    [
        WeightedRandomSampler([1, 1, 1, 1, 3, 3, 3, 3], 8),
        RandomSampler(range(8), num_samples=2),
    ],
)
@pytest.mark.parametrize("is_batched", [True, False])
def test_a_random_sampler_is_one_of_the_training_samples(kind, sampler, is_batched):
    option = {"sampler": sampler}
    if is_batched:
        option = {"batch_sampler": BatchSampler(sampler, 4, drop_last=False)}
    net = NeuralClassifier(max_epochs=1, iterator_train=kind).set_params(
        **{f"iterator_train__{name}": value for name, value in option.items()}
    )
    net.fit(np.eye(8), np.arange(8) % 2)
    net.set_params(validation_fraction=0.25)
    with pytest.raises(ValueError, match=r"must draw from 6 .* a sampler for 8\."):
        net.fit(np.eye(8), np.arange(8) % 2)


def balanced_batches(dataset, batch_size, **_):
    """Return mini-batches as the recipe for imbalanced data does."""
    y = torch.cat([y for _, y in iterate_batches(dataset, 1000)])
    sampler = WeightedRandomSampler(1 / torch.bincount(y)[y], len(y))
    return iterate_batches(dataset, batch_size, sampler=sampler)


def test_balanced_batches_draw_from_the_training_part_of_each_fold():
    X = np.linspace(0, 1, 400).reshape(-1, 1)
    y = np.where(np.arange(400) % 10, "common", "rare")
    drawn, seen, held_out = [], [], []

    class Begin(Callback):
        def on_train_begin(self, *_, **__):
            for rows in (drawn, seen, held_out):
                rows.append([])

    def record(X, y, sample_weight):
        drawn[-1] += X.ravel().tolist()
        seen[-1] += y[:, 1].tolist()  # one-hot
        return X, y, sample_weight

    def record_valid(dataset, batch_size, **_):
        batches = [*iterate_batches(dataset, batch_size)]
        if len(dataset) > 1:  # not the first sample, with which the data are checked
            held_out[-1] += [row for X, _ in batches for row in X.ravel().tolist()]
        return batches

    net = NeuralClassifier(
        max_epochs=4,
        iterator_train=balanced_batches,
        iterator_valid=record_valid,
        batch_transform=record,
        validation_fraction=0.25,
        callbacks=[Begin],
        random_state=0,
    )
    GridSearchCV(net, {"lr": [0.01]}, cv=2, refit=False).fit(X, y)
    for rows, codes, others in zip(drawn, seen, held_out, strict=True):
        # Four epochs with 150 of the 200 samples outside of the fold.
        assert len(codes) == 600
        # 4 standard deviations of a binomial distribution; 0.1 of y are rare.
        assert np.mean(codes) == pytest.approx(0.5, abs=4 * 0.5 / 600**0.5)
        # The validation set and the fold.
        assert len({*others}) == 250
        assert not {*rows} & {*others}


def test_a_data_loader_takes_no_weights():
    dataset = _dataset(8)
    dataset.sample_weight = np.ones(8)
    with pytest.raises(
        ValueError,
        match=r"sample_weight cannot be used if a DataLoader forms the batches",
    ):
        iterate_batches(dataset, drop_last=True)
