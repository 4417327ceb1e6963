"""Dicts of several inputs, for modules such as those of Hugging Face."""

import pickle
from collections import UserDict
from functools import cache

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, cross_val_score
from skorch.dataset import Dataset
from skorch.helper import SliceDict, predefined_split
from torch import nn

from sklearn_calib import (
    CalibratedClassifier,
    NeuralClassifier,
    PredictionSetClassifier,
    SelectiveClassifier,
    TemperatureScaling,
)
from sklearn_calib.datasets import Mixup

rng = np.random.default_rng(0)
LENGTHS = rng.integers(2, 7, 90)
MASK = np.arange(6) < LENGTHS[:, None]
IDS = np.where(MASK, rng.integers(1, 20, MASK.shape), 0)
AGE = rng.normal(size=(90, 1))
X = {"input_ids": IDS, "attention_mask": MASK, "age": AGE}
y = np.where(IDS.sum(1) > 10 * LENGTHS, "late", "early")


class Bag(nn.Module):
    """Mean of the embeddings of the tokens, and an age."""

    def __init__(self, n_tokens=20, n_classes=2):
        super().__init__()
        self.embed = nn.Embedding(n_tokens, 8)
        self.head = nn.Linear(9, n_classes)
        self.seen = set()

    def forward(self, input_ids, attention_mask, age=None):
        self.seen.add((input_ids.dtype, attention_mask.dtype, age.dtype))
        weight = attention_mask.unsqueeze(2).to(age.dtype)
        mean = (self.embed(input_ids) * weight).sum(1) / weight.sum(1)
        return self.head(torch.cat([mean, age], dim=1))


NET = NeuralClassifier(Bag, max_epochs=8, lr=0.05, random_state=0)


def test_each_input_is_an_argument_with_its_type():
    net = clone(NET).set_params(max_epochs=30).fit(X, y)
    assert net.score(X, y) > 0.9
    assert net.module_.seen == {(torch.int64, torch.bool, torch.float32)}
    assert not hasattr(net, "n_features_in_")
    assert net.predict_proba(X).shape == (90, 2)
    again = pickle.loads(pickle.dumps(net))
    np.testing.assert_array_equal(again.predict(X), net.predict(X))


class BagOfArray(Bag):
    def forward(self, X):
        return self.head(torch.cat([self.embed(X).sum(1), X[:, :1]], dim=1))


def test_embedding_of_an_array_of_integers():
    """An array becomes floats, and a dict with the same array does not."""
    net = clone(NET).set_params(module=BagOfArray)
    with pytest.raises(TypeError, match=r"got floats, .* Pass a dict .* {'X': X}, "):
        net.fit(IDS, y)
    net.fit({"X": IDS}, y)


@pytest.mark.parametrize(
    "convert",
    [
        lambda X: {name: X[name].tolist() for name in X},
        lambda X: {name: torch.from_numpy(X[name]) for name in X},
        lambda X: {**X, "age": csr_array(X["age"])},
        lambda X: {name: X[name] for name in reversed(X)},
        UserDict,  # as BatchEncoding of transformers
        lambda X: SliceDict(**X),
    ],
)
def test_every_container_gives_the_same_predictions(convert):
    net = clone(NET).set_params(max_epochs=1)
    expected = clone(net).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(
        net.fit(convert(X), y).predict_proba(convert(X)), expected
    )


@pytest.mark.parametrize(
    "params",
    [
        {"early_stopping": True, "use_caching": False},
        {"loss": "adafocal", "loss__n_bins": 3, "refit": True},
        {"train_split": predefined_split(Dataset(X, y))},
        {"iterator_train__drop_last": True, "batch_size": 32},
        {"class_weight": "balanced", "posterior": True, "loss": "focal"},
    ],
)
def test_every_way_to_train_takes_a_dict(params):
    net = clone(NET).set_params(max_epochs=2, **params).fit(X, y)
    assert np.isfinite(net.predict_proba(X)).all()


def test_weights_equal_repetition():
    weight = rng.integers(0, 3, len(y))
    net = clone(NET).set_params(batch_size=-1, dtype="float64", max_epochs=3)
    weighted = clone(net).fit(X, y, sample_weight=weight).predict_proba(X)
    twice = {name: values.repeat(weight, axis=0) for name, values in X.items()}
    repeated = net.fit(twice, y.repeat(weight)).predict_proba(X)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-8)


def test_a_transform_gets_the_dict():
    def drop_age(inputs, target, weight):
        return {**inputs, "age": 0 * inputs["age"]}, target, weight

    net = clone(NET).set_params(batch_transform=drop_age, max_epochs=2).fit(X, y)
    assert net.predict(X).shape == y.shape


def test_searches_and_calibration_take_a_slice_dict():
    """scikit-learn needs rows, which a dict does not have."""
    inputs = SliceDict(**X)
    net = clone(NET).set_params(max_epochs=10)
    assert cross_val_score(net, inputs, y, cv=2).mean() > 0.6
    net.set_params(max_epochs=1)
    GridSearchCV(net, {"lr": [0.01, 0.05]}, cv=2).fit(inputs, y)
    model = CalibratedClassifier(net, None, cv=2).fit(inputs, y)
    assert model.predict_proba(inputs).shape == (90, 2)


WEIGHT = np.tile([1.0, 2.0], 45)


@cache
def of_slices(wrapper):
    """Return the probabilities of a wrapper that is fitted to a SliceDict."""
    inputs = SliceDict(**X)
    return few_epochs(wrapper).fit(inputs, y, WEIGHT).predict_proba(inputs)


def few_epochs(wrapper):
    return clone(wrapper).set_params(estimator__max_epochs=2)


@cache
def frozen_net():
    return FrozenEstimator(clone(NET).fit(X, y))


@pytest.mark.parametrize(
    "wrapper",
    [
        CalibratedClassifier(NET, TemperatureScaling(), cv=2, n_repeats=1),
        PredictionSetClassifier(NET, cv=2),
        SelectiveClassifier(NET, coverage=0.8, cv=2),
    ],
)
@pytest.mark.parametrize("container", [dict, UserDict])
def test_wrappers_take_a_dict(wrapper, container):
    model = few_epochs(wrapper).fit(container(X), y, WEIGHT)
    np.testing.assert_array_equal(model.predict_proba(container(X)), of_slices(wrapper))
    frozen = clone(wrapper).set_params(estimator=frozen_net())
    assert frozen.fit(X, y).predict_proba(X).shape == (90, 2)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        clone(wrapper).fit({**X, "age": AGE[:9]}, y)


def test_partial_fit():
    net = clone(NET).partial_fit(X, y, classes=["early", "late"])
    assert len(net.partial_fit(X, y).history_) == 2


def fit(X=X, **params):
    return clone(NET).set_params(max_epochs=1, **params).fit(X, y)


BAD = {
    "default network": (
        lambda: fit(module=None), ValueError,
        "module must be given unless .* got a dict of several inputs",
    ),
    "nan": (
        lambda: fit({**X, "age": np.where(AGE > 1, np.nan, AGE)}), ValueError,
        r"Input X\['age'\] contains NaN",
    ),
    "ragged": (
        lambda: fit({**X, "input_ids": [[1] * n for n in LENGTHS]}), ValueError,
        r"X\['input_ids'\] must have rows of equal length.*Pad",
    ),
    "text": (
        lambda: fit({**X, "age": ["a"] * 90}), ValueError,
        r"X\['age'\] must contain numbers",
    ),
    "short": (
        lambda: fit({**X, "age": AGE[:5]}), ValueError, "inconsistent numbers of sam",
    ),
    "number": (lambda: fit({**X, 3: AGE}), TypeError, "got a dict with the keys"),
    "empty": (lambda: fit({}), TypeError, r"got a dict with the keys \[\]"),
    "other inputs": (
        lambda: fit().predict({"input_ids": IDS}), ValueError,
        r"X must be a dict .*'attention_mask', 'age'\], as in fit, got .*'input_ids'\]",
    ),
    "array later": (
        lambda: fit().predict(IDS), ValueError, "X must be a dict .*, got an array",
    ),
    "dict later": (
        lambda: NeuralClassifier(max_epochs=1).fit(IDS, y).predict(X), ValueError,
        "X must be an array, as in fit, got a dict of",
    ),
    "no y": (lambda: clone(NET).fit(X), ValueError, "requires y to be passed"),
    "mixup": (
        lambda: fit(batch_transform=Mixup()), TypeError, "X must be a .*[Tt]ensor",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_inputs(case):
    action, error, message = BAD[case]
    with pytest.raises(error, match=message):
        action()


def test_an_array_after_a_dict():
    net = clone(NET).fit(X, y).set_params(module=None, max_epochs=1)
    net.fit(IDS, y)
    assert net.n_features_in_ == 6
    assert net.set_params(module=Bag).fit(X, y).predict(X).shape == y.shape
    assert not hasattr(net, "n_features_in_")
