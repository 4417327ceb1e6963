"""Sequences of unequal length, padded in each mini-batch by `collate_fn`."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from skorch.helper import SliceDataset
from torch import nn
from torch.nn.utils.rnn import pack_sequence, pad_sequence
from torch.utils.data import DataLoader, IterableDataset

from sklearn_calib import CalibratedClassifier, NeuralClassifier, TemperatureScaling

rng = np.random.default_rng(0)
codes = np.arange(30) % 2
WORDS = [rng.choice([1, 2] if code else [2, 3], rng.integers(2, 7)) for code in codes]
codes[:4] = 1 - codes[:4]  # not separable
NAMES = np.array(["first", "last"])[codes]
PAIRS = list(zip(WORDS, codes, strict=True))
TEXTS = [(" ".join("-abc"[word] for word in words), code) for words, code in PAIRS]


class GRUClassifier(nn.Module):
    def __init__(self, batch_first=True):
        super().__init__()
        self.embedding = nn.Embedding(4, 4, padding_idx=0)
        self.gru = nn.GRU(4, 4, batch_first=batch_first)
        self.linear = nn.Linear(4, 2)

    def forward(self, words):
        _, state = self.gru(self.embedding(words.long()))
        return self.linear(state[-1])


def pad(samples, batch_first=True):
    words, labels = zip(*samples, strict=True)
    padded = pad_sequence([torch.as_tensor(each) for each in words], batch_first)
    return padded, torch.tensor(labels)


def pad_columns(samples):
    return pad(samples, batch_first=False)


def pad_in_dict(samples):
    words, labels = pad(samples)
    return {"words": words}, labels


def pad_texts(samples):
    return pad([(["-abc".index(w) for w in text.split()], y) for text, y in samples])


def network(collate_fn, **params):
    names = ("iterator_train__collate_fn", "iterator_valid__collate_fn")
    options = {**dict.fromkeys(names, collate_fn), **params}
    common = {"max_epochs": 6, "lr": 0.1, "batch_size": 8, "random_state": 0}
    return NeuralClassifier(GRUClassifier, **common, **options)


class Sequences(torch.utils.data.Dataset):
    def __len__(self):
        return len(PAIRS)

    def __getitem__(self, i):
        return PAIRS[i]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(PAIRS)


LOADERS = {"iterator_train": DataLoader, "iterator_valid": DataLoader}


@pytest.mark.parametrize(
    "net",
    [
        network(pad),
        network(pad_columns, module__batch_first=False),
        network(pad_in_dict),
        network(pad, **LOADERS),
    ],
)
def test_sequences_are_padded(net):
    slices, wanted = SliceDataset(Sequences()), None
    for X, y in [(Sequences(), None), (slices, codes)]:
        twin = clone(net).fit(X, y, classes=[0, 1])
        assert not hasattr(twin, "n_features_in_")
        wanted = twin.predict_proba(X) if wanted is None else wanted
        for data in (Sequences(), slices, Stream()):
            np.testing.assert_array_equal(twin.predict_proba(data), wanted)
        assert twin.score(X, codes) > 0.7


@pytest.mark.parametrize(
    "model",
    [
        network(pad_texts, validation_fraction=0.2),
        GridSearchCV(network(pad_texts), {"lr": [0.1]}, cv=2, error_score="raise"),
        CalibratedClassifier(network(pad_texts), TemperatureScaling(), cv=2),
    ],
)
def test_padded_texts_are_searched_and_calibrated(model):
    texts = SliceDataset(TEXTS)
    model = clone(model).fit(texts, NAMES)
    assert model.predict_proba(texts).shape == (30, 2)
    assert model.score(texts, NAMES) > 0.7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"have the form of item .* pad them in iterator_train__collate_fn"),
        (
            {"collate_fn": lambda samples: ([*pad(samples)], pad(samples)[1])},
            "got list. Return a tensor, or a dict",
        ),
        (
            {"collate_fn": lambda _: (pack_sequence([torch.ones(1)]), torch.ones(1))},
            "got PackedSequence. Return a tensor",
        ),
    ],
)
def test_other_batches_are_refused(options, message):
    names = ("iterator_train", "iterator_valid")
    options = {f"{name}__{key}": v for name in names for key, v in options.items()}
    net = NeuralClassifier(GRUClassifier, max_epochs=1, **options)
    with pytest.raises((TypeError, ValueError), match=message):
        net.fit(SliceDataset(Sequences()), codes)
