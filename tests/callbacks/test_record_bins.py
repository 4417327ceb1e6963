"""Values of each bin that are recorded during training."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from skorch.callbacks import Callback
from skorch.dataset import ValidSplit
from torch.utils.data import DataLoader

from sklearn_calib import NeuralClassifier
from sklearn_calib.callbacks import RecordBins

X, y = make_classification(
    n_samples=300, n_informative=5, n_classes=3, flip_y=0.2, random_state=0
)
LABELS = np.array(["ant", "bee", "cow"])[y]
WEIGHT = np.random.default_rng(0).uniform(0.5, 2, 300)
VALID = ["bin_edges", "bin_confidence", "bin_accuracy", "calibration_gap", "bin_weight"]
TRAIN = ["train_confidence_true", "train_confidence_top"]


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-7)


class KeepPredictions(Callback):
    """Keep the predictions on training and validation data after each epoch."""

    def on_train_begin(self, *args, **kwargs):
        self.parts = []

    def on_epoch_end(self, net, dataset_train=None, dataset_valid=None, **kwargs):
        self.parts.append(
            [self.predict(net, part) for part in (dataset_valid, dataset_train)]
        )

    def predict(self, net, part):
        rows, every = part.indices, np.arange(len(part))
        proba, codes = net.predict_proba(part), part.dataset.y[rows]
        weight = part.dataset.sample_weight
        weight = np.ones(len(rows)) if weight is None else weight[rows]
        correct = proba.argmax(axis=1) == codes
        proba = proba.astype(np.float32)
        return proba.max(axis=1), proba[every, codes], correct, weight


def fit(record, *others, sample_weight=None, **params):
    net = NeuralClassifier(
        **{"loss": "focal", "max_epochs": 2, "random_state": 0, **params},
        validation_fraction=0.3,
        callbacks=[record, *others],
    )
    return net.fit(X, LABELS, sample_weight=sample_weight)


def means(values, binned, edges, weight):
    """Return weighted means in bins of other values; bins are closed on the right."""
    index = np.searchsorted(edges[1:-1], binned)
    bins = [index == number for number in range(len(edges) - 1)]
    return [
        np.average(values[rows], weights=weight[rows]) if rows.any() else np.nan
        for rows in bins
    ]


@pytest.mark.parametrize("sample_weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_common_bins(sample_weight):
    keep = KeepPredictions()
    net = fit(RecordBins(n_bins=4), keep, sample_weight=sample_weight)
    for row, (valid, train) in zip(net.history_, keep.parts, strict=True):
        confidence, _, correct, weight = valid
        edges = np.array(row["bin_edges"])
        assert (edges[0], edges[-1], len(edges)) == (0, 1, 5)
        index = np.searchsorted(edges[1:-1], confidence)
        assert_close(row["bin_weight"], np.bincount(index, weight))
        assert_close(
            row["bin_confidence"], means(confidence, confidence, edges, weight)
        )
        accuracy = np.bincount(index, weight * correct) / row["bin_weight"]
        assert_close(row["bin_accuracy"], accuracy)
        gap = np.subtract(row["bin_confidence"], row["bin_accuracy"])
        assert_close(row["calibration_gap"], gap)
        for name, values in zip(TRAIN, (train[1], train[0]), strict=True):
            expected = means(values, train[1], edges, train[3])
            assert_close(row[name], expected)


def test_common_bins_hold_equal_numbers_of_the_validation_set():
    net = fit(RecordBins(n_bins=5))
    assert net.history_[:, "bin_weight"] == [[18.0] * 5] * 2


def test_independent_bins():
    keep = KeepPredictions()
    net = fit(RecordBins(n_bins=5, binning="independent"), keep)
    for row, (_, (top, p_true, _, _)) in zip(net.history_, keep.parts, strict=True):
        # 210 training samples, 42 in each of the five bins.
        order = np.argsort(p_true)
        for name, values in zip(TRAIN, (p_true, top), strict=True):
            expected = values[order].reshape(5, 42).mean(axis=1)
            assert_close(row[name], expected)
        highest = p_true[order].reshape(5, 42).max(axis=1)
        assert_close(row["train_bin_edges"], [0, *highest[:-1], 1])


def test_a_common_bin_without_training_data_has_nan():
    """A bin above the probabilities of all true classes is empty."""
    net = fit(RecordBins(), KeepBins([0.0, 1 - 1e-12, 1.0]))
    low, high = net.history_[-1, "train_confidence_true"]
    assert 0 < low < 1
    assert np.isnan(high)


def test_numbers_are_plain_floats():
    """Recorded values are lists of floats, so the history can be saved as JSON."""
    row = fit(RecordBins()).history_[-1]
    assert all(type(value) is float for name in VALID + TRAIN for value in row[name])


class KeepBins(Callback):
    """Record bins, as a loss may do."""

    def __init__(self, edges):
        self.edges = edges

    def on_batch_end(self, net, **kwargs):
        net.history.record("bin_edges", self.edges)


def test_bins_of_a_loss_are_kept():
    edges = [0.0, 0.4, 0.6, 1.0]
    keep = KeepPredictions()
    net = fit(RecordBins(n_bins=15), KeepBins(edges), keep)
    for row, (_, train) in zip(net.history_, keep.parts, strict=True):
        assert row["bin_edges"] == edges
        assert "bin_confidence" not in row
        expected = means(train[1], train[1], np.array(edges), train[3])
        assert_close(row["train_confidence_true"], expected)


@pytest.mark.parametrize("seed", [0, None])
def test_recording_changes_nothing_else(seed):
    """Not the order of the samples, nor dropout, nor batch normalisation.

    A DataLoader draws from torch's generator for each pass.
    """
    probas = []
    for callbacks in ([], [RecordBins()]):
        torch.manual_seed(0)
        net = NeuralClassifier(
            module=torch.nn.Sequential(
                torch.nn.Linear(20, 16),
                torch.nn.BatchNorm1d(16),
                torch.nn.Dropout(0.5),
                torch.nn.Linear(16, 3),
            ),
            train_split=ValidSplit(3),
            iterator_valid=DataLoader,
            max_epochs=2,
            random_state=seed,
            callbacks=callbacks,
        )
        probas.append(net.fit(X, y).predict_proba(X))
    np.testing.assert_array_equal(*probas)


def test_validation_set_is_held_out_by_the_callback():
    net = NeuralClassifier(max_epochs=1, callbacks=[RecordBins(n_bins=3)]).fit(X, y)
    assert sum(net.history_[-1, "bin_weight"]) == 30


def test_validation_data_must_exist():
    net = NeuralClassifier(callbacks=[RecordBins()])
    with pytest.raises(ValueError, match="RecordBins must have validation data"):
        net.partial_fit(X, y, classes=[0, 1, 2])


def test_nothing_is_recorded_of_the_second_run():
    net = fit(RecordBins(n_bins=3), refit=True)
    assert all(name in net.validation_history_[-1] for name in VALID + TRAIN)
    assert not any(name in net.history_[-1] for name in VALID + TRAIN)


def test_parameters_can_be_searched():
    net = NeuralClassifier(max_epochs=1, callbacks=[("bins", RecordBins())])
    search = GridSearchCV(net, {"callbacks__bins__n_bins": [3]}, cv=2).fit(X, y)
    history = clone(search.best_estimator_).fit(X, y).history_
    assert len(history[-1, "bin_weight"]) == 3


def test_tied_confidences_share_a_bin():
    """Network that makes the same prediction for every sample."""
    net = fit(RecordBins(), module=Constant)
    row = net.history_[-1]
    assert row["bin_edges"] == [0, 1]
    assert row["bin_weight"] == [90]


class Constant(torch.nn.Module):
    """Network with constant, equal logits."""

    def __init__(self):
        super().__init__()
        self.logit = torch.nn.Parameter(torch.ones(1))

    def forward(self, X):
        return self.logit.expand(len(X), 3)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_bins": 0}, "n_bins must be a positive integer, got 0"),
        ({"n_bins": 2.5}, "n_bins must be a positive integer, got 2.5"),
        ({"n_bins": True}, "n_bins must be a positive integer, got True"),
        ({"binning": "both"}, "binning must be 'common' or 'independent', got 'both'"),
        ({"binning": np.ones(2)}, "binning must be 'common' or 'independent', got arr"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        fit(RecordBins(**params))
