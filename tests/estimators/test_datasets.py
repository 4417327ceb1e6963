"""Training data that need not be in memory: torch's datasets and streams."""

import pickle
from functools import cache

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from skorch.callbacks import EpochScoring
from skorch.dataset import Dataset, ValidSplit
from skorch.helper import predefined_split
from torch.utils.data import ConcatDataset, IterableDataset, Subset, TensorDataset

from sklearn_calib import CalibratedClassifier, NeuralClassifier, RefCalClassifier
from sklearn_calib.callbacks import Checkpoint, RecordBins

X, codes = make_classification(
    65, n_informative=6, n_classes=3, flip_y=0.2, random_state=0
)
NAMES = np.array(["cat", "dog", "eel"])
X_VALID, VALID_CODES = X[:30][::-1].copy(), codes[:30][::-1].copy()
DEEP = NeuralClassifier(
    max_epochs=2, batch_size=32, module__dropout=0.3, random_state=0
)
NET = clone(DEEP).set_params(module__hidden_sizes=(8,), lr=0.01)


def tensors(X, y):
    return TensorDataset(torch.tensor(X), torch.tensor(y))


class Stream(IterableDataset):
    """Samples that can be read in order only."""

    def __init__(self, X, y):
        self.X, self.y = X, y

    def __iter__(self):
        return zip(self.X, self.y, strict=True)


class Once(Stream):
    """Samples that can be read only once."""

    def __init__(self, X, y):
        self.samples = zip(X, y, strict=True)

    def __iter__(self):
        return self.samples


def assert_equal(net, twin, ignored=("dur", "batches")):
    for part in ("module_", "criterion_"):
        found, wanted = (getattr(each, part).state_dict() for each in (net, twin))
        assert found.keys() == wanted.keys()
        for name in found:
            assert torch.equal(found[name], wanted[name]), name
    for name in twin.history_[-1].keys() - {*ignored}:
        np.testing.assert_equal(net.history_[-1, name], twin.history_[-1, name])


# Datasets -----------------------------------------------------------------------------


def halves(X, y):
    return ConcatDataset([tensors(X[:20], y[:20]), tensors(X[20:], y[20:])])


def every_row(X, y):
    return Subset(tensors(X, y), range(len(X)))


@pytest.mark.parametrize("make", [tensors, Dataset, halves, every_row])
def test_a_dataset_trains_as_arrays_do(make):
    assert_trains_as_arrays(make)


@pytest.mark.parametrize(
    "params",
    [
        {"dtype": "float64"},
        {"loss": "crl"},
        {"loss": "adafocal", "loss__n_bins": 5, "max_epochs": 3},
        {"early_stopping": True, "n_iter_no_change": 1, "lr": 0.1, "max_epochs": 30},
        {"refit": True, "loss": "adafocal", "loss__n_bins": 5},
        {"callbacks": [RecordBins(n_bins=3)]},
        {"batch_size": -1},
    ],
)
def test_a_dataset_trains_as_arrays_do_with(params):
    assert_trains_as_arrays(tensors, **params)


def assert_trains_as_arrays(make, **params):
    """Check parameters and predictions, bit for bit."""
    valid = predefined_split(Dataset(X_VALID, VALID_CODES))
    twin = clone(NET).set_params(train_split=valid, **params).fit(X, codes)
    valid = predefined_split(make(X_VALID, VALID_CODES))
    net = clone(NET).set_params(train_split=valid, **params)
    net.fit(make(X, codes), classes=range(3))
    assert_equal(net, twin)
    assert net.n_features_in_ == 20
    for method in ("predict", "predict_proba", "decision_function"):
        wanted = getattr(twin, method)(X)
        np.testing.assert_array_equal(getattr(net, method)(make(X, codes)), wanted)
        np.testing.assert_array_equal(getattr(net, method)(X), wanted)


@pytest.mark.parametrize("loss", ["focal", "adafocal"])
@pytest.mark.filterwarnings("ignore:n_bins must be small enough:UserWarning")
def test_a_stream_trains_as_arrays_in_its_order_do(loss):
    params = {"loss": loss, "early_stopping": True, "n_iter_no_change": 2}
    update = {"callbacks__update_loss__update_every": "epoch"}
    net = clone(NET).set_params(**params, max_epochs=6)
    twin = clone(net).set_params(
        iterator_train__shuffle=False,
        train_split=predefined_split(Dataset(X_VALID, VALID_CODES)),
        **update,
    )
    twin.fit(X, codes)
    net.set_params(train_split=predefined_split(Stream(X_VALID, VALID_CODES)))
    net.fit(Stream(X, codes), classes=range(3))
    assert_equal(net, twin)
    proba = net.predict_proba(Stream(X, codes))
    np.testing.assert_array_equal(proba, twin.predict_proba(X))


def test_labels_are_those_in_classes():
    twin = clone(NET).fit(X, NAMES[codes])
    net = clone(NET).fit(Dataset(X, NAMES[codes]), classes=NAMES[[2, 0, 1]])
    assert_equal(net, twin)
    np.testing.assert_array_equal(net.predict(Dataset(X)), twin.predict(X))
    with pytest.raises(ValueError, match=r"y must contain only the labels .*got also"):
        clone(NET).fit(tensors(X, codes), classes=NAMES)
    with pytest.raises(ValueError, match=r"y must contain only the labels .*got also"):
        clone(NET).fit(tensors(X, codes), classes=[0, 1])


def test_options_of_the_data_loader():
    net = clone(NET).set_params(iterator_train__drop_last=True)
    net.fit(tensors(X, codes), classes=range(3))
    assert net.history_[-1, "train_batch_count"] == 2
    for iterator in (net.iterator_train, torch.utils.data.DataLoader):
        net.set_params(iterator_train=iterator).fit(Stream(X, codes), classes=range(3))
        assert net.history_[-1, "train_batch_count"] == 2


class TwoInputs(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.linear = torch.nn.Embedding(9, 3), torch.nn.Linear(20, 3)

    def forward(self, token, row):
        return self.embed(token) + self.linear(row)


def test_several_inputs():
    inputs = {"token": np.arange(65) % 9, "row": X}
    net = NeuralClassifier(TwoInputs, max_epochs=2, random_state=0)
    rows = [{name: part[i] for name, part in inputs.items()} for i in range(65)]
    stream = Stream(rows, codes)
    twin = clone(net).set_params(iterator_train__shuffle=False).fit(inputs, codes)
    assert_equal(clone(net).fit(stream, classes=range(3)), twin)


def test_more_epochs():
    data = tensors(X, codes)
    whole = clone(NET).fit(data, classes=range(3))
    net = clone(NET).set_params(max_epochs=1, warm_start=True)
    net.fit(data, classes=range(3)).fit(data)
    assert_equal(net, whole)
    with pytest.raises(ValueError, match="classes must stay"):
        net.fit(data, classes=range(4))
    net = clone(NET).partial_fit(data, classes=range(3))
    assert_equal(net.partial_fit(data), whole)


def test_a_dataset_resumes_from_a_checkpoint(tmp_path):
    data, file = tensors(X, codes), str(tmp_path / "net.ckpt")
    whole = clone(NET).fit(data, classes=range(3))
    net = clone(NET).set_params(max_epochs=1, callbacks=[Checkpoint(file)])
    net.fit(data, classes=range(3))
    net = clone(net).set_params(max_epochs=2).fit(data, classes=range(3))
    assert_equal(net, whole)


def test_a_checkpoint_of_other_classes(tmp_path):
    net = clone(NET).set_params(callbacks=[Checkpoint(tmp_path / "file")])
    net.fit(tensors(X, codes), classes=range(3))
    with pytest.raises(ValueError, match="same data and parameters"):
        net.fit(tensors(X, codes), classes=range(4))


def test_images_of_bytes_and_a_pickle():
    rng = np.random.default_rng(0)
    images = rng.integers(256, size=(30, 3, 8, 8), dtype=np.uint8)
    y = np.arange(30) % 2
    net = NeuralClassifier(max_epochs=1, module__n_filters=2, random_state=0)
    twin = clone(net).fit(images, y)
    net = clone(net).fit(tensors(images, y), classes=[0, 1])
    assert_equal(pickle.loads(pickle.dumps(net)), twin)


@pytest.mark.parametrize(
    "case",
    [
        ({}, {}, "classes must be given if X is a Dataset"),
        ({}, {"y": codes, "classes": range(3)}, "y must be None if X is a Dataset"),
        (
            {},
            {"sample_weight": np.ones(65), "classes": range(3)},
            "sample_weight must be None if X is a Dataset",
        ),
        (
            {"class_weight": {0: 2}},
            {"classes": range(3)},
            "class_weight must be None if X is a Dataset",
        ),
        (
            {"use_caching": False},
            {"classes": range(3)},
            "use_caching must not be False for a Dataset",
        ),
        ({}, {"classes": [1]}, "y must hold at least 2 classes"),
        (
            {"early_stopping": True},
            {"classes": range(3)},
            r"needs a validation set\. .*predefined_split\(valid_dataset\)",
        ),
        ({"loss": "adafocal"}, {"classes": range(3)}, "needs a validation set"),
        (
            {"validation_fraction": 0.2},
            {"classes": range(3)},
            "cannot hold out a part of",
        ),
    ],
)
@pytest.mark.parametrize("make", [tensors, Stream])
def test_what_a_dataset_does_not_allow(case, make):
    params, arguments, message = case
    net = clone(NET).set_params(**params)
    with pytest.raises(ValueError, match=message):
        net.fit(make(X, codes), **arguments)
    assert not hasattr(net, "classes_")


@pytest.mark.parametrize(
    "case",
    [
        ({"loss": "crl"}, "loss must not be 'crl' for an IterableDataset"),
        ({"batch_size": -1}, "batch_size must not be -1 for an IterableDataset"),
        ({"train_split": ValidSplit(3)}, "train_split must not be .*IterableDataset"),
    ],
)
def test_what_a_stream_does_not_allow(case):
    params, message = case
    with pytest.raises(ValueError, match=message):
        clone(NET).set_params(**params).fit(Stream(X, codes), classes=range(3))


@pytest.mark.parametrize(
    "case",
    [
        (lambda: Stream(X * np.nan, codes), "Input X contains NaN"),
        (lambda: Stream(X[:0], codes[:0]), "X must contain at least one sample"),
        (lambda: Once(X, codes), "must start again in each epoch"),
        (lambda: tensors(X, codes + 0.5), "y must contain only the labels"),
        (lambda: tensors(np.where(X[40, 3] == X, np.inf, X), codes), "infinity"),
    ],
)
def test_data_that_are_wrong(case):
    make, message = case
    with pytest.raises(ValueError, match=message):
        clone(NET).fit(make(), classes=range(3))
    net = clone(NET).fit(X, codes)
    with pytest.raises(ValueError, match="X has 5 features, but NeuralClassifier"):
        net.predict(tensors(X[:, :5], codes))


def test_a_split_of_a_dataset():
    net = clone(NET).set_params(train_split=ValidSplit(3))
    twin = clone(net).fit(X, codes)
    assert_equal(net.fit(tensors(X, codes), classes=range(3)), twin)


def test_refcal_takes_arrays_only_and_no_net_a_loader():
    with pytest.raises(TypeError, match=r"DataLoader\. Pass its attribute dataset"):
        clone(NET).fit(torch.utils.data.DataLoader(tensors(X, codes)), classes=[0, 1])
    model = RefCalClassifier(refine__max_epochs=1, head__max_epochs=1)
    message = "X must be an array for RefCalClassifier, got a Dataset: TensorDataset"
    with pytest.raises(TypeError, match=message):
        model.fit(tensors(X, codes), codes)
    model.fit(X, codes)
    with pytest.raises(TypeError, match=message):
        model.predict(tensors(X, codes))


# Classes of arrays --------------------------------------------------------------------


@pytest.mark.parametrize("net", [DEEP, FrozenEstimator(clone(DEEP).fit(X, codes))])
def test_wrappers_take_arrays_only(net):
    with pytest.raises(TypeError, match="X must be an array, got a Dataset: TensorD"):
        CalibratedClassifier(net, None).fit(tensors(X, codes), codes)


def test_classes_that_are_absent_from_y():
    net = clone(NET).fit(X, NAMES[codes], classes=[*NAMES, "elk"])
    assert net.predict_proba(X).shape == (65, 4)
    assert net.classes_.tolist() == ["cat", "dog", "eel", "elk"]
    with pytest.raises(ValueError, match=r"y must contain only the labels .*got also"):
        clone(NET).fit(X, NAMES[codes], classes=NAMES[:2])


# A validation set for partial_fit -----------------------------------------------------

VALID = X_VALID, VALID_CODES


def net_of_epochs(loss):
    net = clone(NET).set_params(loss=loss)
    return net.set_params(callbacks__update_loss__update_every="epoch")


@cache
def fitted_with_a_split(loss):
    split = predefined_split(Dataset(*VALID))
    return net_of_epochs(loss).set_params(train_split=split).fit(X, codes)


@pytest.mark.parametrize("loss", ["focal", "adafocal", "crl"])
@pytest.mark.parametrize("validation", [VALID, tensors(*VALID), Stream(*VALID)])
@pytest.mark.filterwarnings("ignore:n_bins must be small enough:UserWarning")
def test_partial_fit_with_a_validation_set_is_an_epoch_of_fit(loss, validation):
    net, twin = net_of_epochs(loss), fitted_with_a_split(loss)
    net.partial_fit(X, codes, classes=range(3), validation=validation)
    net.partial_fit(X, codes, validation=validation)
    # Callbacks start anew in each call.
    best = {name for name in twin.history_[-1] if name.endswith("_best")}
    assert_equal(net, twin, ignored={"dur", "batches", *best})


def test_partial_fit_learns_from_the_validation_set_of_each_call():
    net = clone(NET).set_params(loss="adafocal", loss__n_bins=5)
    net.partial_fit(X, NAMES[codes], NAMES, validation=(X_VALID, NAMES[VALID_CODES]))
    gammas = net.history_[-1, "gamma"]
    net.partial_fit(X, NAMES[codes], validation=(X_VALID, NAMES[VALID_CODES]))
    assert net.history_[-1, "gamma"] != gammas
    message = r"got none. partial_fit holds out no data. Pass validation=\(X, y\)"
    with pytest.raises(ValueError, match=message):
        net.partial_fit(X, NAMES[codes])


def test_scores_of_partial_fit():
    accuracy = EpochScoring("accuracy", name="own", use_caching=False)
    net = clone(NET).set_params(callbacks=[accuracy, RecordBins(n_bins=3)])
    net.partial_fit(X, codes, classes=range(3), validation=VALID)
    expected = (net.predict(X_VALID) == VALID_CODES).mean()
    assert net.history_[-1, "own"] == net.history_[-1, "valid_acc"] == expected
    assert sum(net.history_[-1, "bin_weight"]) == 30


def test_lists_as_a_validation_set():
    lists = X_VALID.tolist(), NAMES[VALID_CODES].tolist()
    net = clone(NET).partial_fit(X, NAMES[codes], NAMES, validation=lists)
    arrays = X_VALID, NAMES[VALID_CODES]
    twin = clone(NET).partial_fit(X, NAMES[codes], NAMES, validation=arrays)
    assert_equal(net, twin)


def test_partial_fit_does_not_refit():
    net = clone(NET).partial_fit(X, codes, classes=range(3), validation=VALID)
    twin = clone(NET).set_params(refit=True)
    twin.partial_fit(X, codes, classes=range(3), validation=VALID)
    assert_equal(twin, net)
    assert not hasattr(twin, "validation_history_")


def test_refcal_learns_from_a_validation_set():
    model = RefCalClassifier(
        loss="adafocal", loss__n_bins=5, refine__max_epochs=1, random_state=0
    )
    named = X_VALID, NAMES[VALID_CODES]
    with pytest.raises(TypeError, match="`validation` must be a pair"):
        model.partial_fit(X, NAMES[codes], NAMES, validation=tensors(*VALID))
    with pytest.raises(ValueError, match="X has 3 features"):
        model.partial_fit(X, NAMES[codes], NAMES, validation=(X[:, :3], NAMES[codes]))
    model.partial_fit(X, NAMES[codes], NAMES, validation=named)
    model.partial_fit(X, NAMES[codes], validation=named)
    assert len(model.history_) == 2
    assert "gamma" in model.history_[-1]
    expected = model.score(*named)
    assert model.history_[-1, "valid_acc"] == pytest.approx(expected)


@pytest.mark.parametrize(
    "case",
    [
        (X_VALID, TypeError, r"`validation` must be a pair \(X, y\), a Dataset or"),
        ((X_VALID[:, :3], VALID_CODES), ValueError, "X has 3 features"),
        ((X_VALID, VALID_CODES + 1), ValueError, "Validation set: y must contain only"),
        (tensors(X_VALID[:, :3], VALID_CODES), ValueError, "X has 3 features"),
        (tensors(X_VALID, VALID_CODES + 1), ValueError, "y must contain only the"),
    ],
)
def test_a_validation_set_that_is_wrong(case):
    validation, kind, message = case
    with pytest.raises(kind, match=message):
        clone(NET).partial_fit(X, codes, range(3), validation=validation)


class OneOdd(torch.utils.data.Dataset):
    """Samples of which one is odd."""

    def __init__(self, index, odd):
        self.index, self.odd = index, odd

    def __len__(self):
        return 20

    def __getitem__(self, index):
        return self.odd if index == self.index else (torch.zeros(3), index % 2)


class InOrder(IterableDataset):
    """The samples of a dataset as a stream."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __iter__(self):
        return (self.dataset[index] for index in range(len(self.dataset)))


@pytest.mark.parametrize(
    ("odd", "kind", "message"),
    [
        (None, TypeError, r"\(Tensor of shape \(3,\), int\), got NoneType\. Return a"),
        ((None, 0), TypeError, r"got \(NoneType, int\)\."),
        (("text", 0), TypeError, r"got \(str, int\)\."),
        ((torch.zeros(4), 0), ValueError, r"got \(Tensor of shape \(4,\), int\)\."),
        (
            {"a": np.zeros(3)},
            (TypeError, ValueError),
            r"got \{'a': ndarray of shape \(3,\)\}\.",
        ),
    ],
    ids=["none", "no array", "text", "ragged", "dict"],
)
@pytest.mark.parametrize("index", [16, 19])
def test_an_odd_item_is_named(odd, kind, message, index):
    """The first of a mini-batch is named, too, if the others agree."""
    net = NeuralClassifier(torch.nn.Linear(3, 2), batch_size=4).initialize(
        classes=[0, 1]
    )
    dataset = OneOdd(index, odd)
    for X in dataset, InOrder(dataset):
        with pytest.raises(kind, match=rf"Item {index} of .* item \d+, .*{message}"):
            net.predict_proba(X)


def test_the_only_item_of_a_batch_is_named():
    net = NeuralClassifier(torch.nn.Linear(3, 2), batch_size=1).initialize(
        classes=[0, 1]
    )
    with pytest.raises(TypeError, match=r"Item 2 of the Dataset must be a pair .*None"):
        net.predict_proba(OneOdd(2, None))
