"""A validation set of one's own, sizes that modules ask for, and images."""

import warnings
from functools import cache
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch.dataset import Dataset
from skorch.helper import SliceDataset, predefined_split
from torch import nn

from sklearn_calib import CalibratedClassifier, NeuralClassifier, RefCalClassifier
from sklearn_calib.callbacks import Checkpoint

X, codes = make_classification(
    200, n_informative=6, n_classes=3, flip_y=0.2, random_state=0
)
y = np.array(["cat", "dog", "eel"])[codes]
TRAIN, VALID = (X[:150], y[:150]), (X[150:], y[150:])
NET = NeuralClassifier(module__hidden_sizes=(8,), max_epochs=2, lr=0.05, random_state=0)


# A validation set of one's own -------------------------------------------------------


@cache
def plain_proba():
    """Return the predictions of a net that all of the data are trained on."""
    return clone(NET).fit(*TRAIN).predict_proba(X)


@pytest.mark.parametrize("convert", [np.asarray, pd.DataFrame, csr_array])
@pytest.mark.parametrize("labels", [np.asarray, pd.Series])
def test_own_validation_set(convert, labels):
    X_valid, y_valid = VALID
    dataset = Dataset(convert(X_valid), labels(y_valid))
    net = clone(NET).set_params(train_split=predefined_split(dataset)).fit(*TRAIN)
    assert net.history_[-1, "valid_log_loss"] == pytest.approx(
        log_loss(y_valid, net.predict_proba(X_valid)), rel=1e-6
    )
    np.testing.assert_array_equal(net.predict_proba(X), plain_proba())


def test_own_validation_set_stops_and_teaches():
    split = predefined_split(Dataset(*VALID))
    params = {"train_split": split, "early_stopping": True, "n_iter_no_change": 2}
    net = clone(NET).set_params(lr=0.1, max_epochs=99, **params).fit(*TRAIN)
    assert len(net.history_) < 99
    net = clone(NET).set_params(train_split=split, loss="adafocal", loss__n_bins=5)
    assert "gamma" in net.fit(*TRAIN).history_[-1]


@pytest.mark.parametrize(
    "case",
    [
        (
            (X[150:], np.where(y[150:] == "cat", "elk", y[150:])),
            r"y must contain only the labels .*got also \['elk'\]",
        ),
        ((X[150:, :5], y[150:]), "X has 5 features, but NeuralClassifier"),
        ((X[150:] * np.nan, y[150:]), "Input X contains NaN"),
    ],
)
def test_own_validation_set_that_is_wrong(case):
    data, message = case
    net = clone(NET).set_params(train_split=predefined_split(Dataset(*data)))
    with pytest.raises(ValueError, match=message):
        net.fit(*TRAIN)


def test_a_validation_set_without_a_split_is_refused():
    net = clone(NET).set_params(train_split=VALID)
    message = r"`train_split` must be a function or None, got tuple. .*predefined_split"
    with pytest.raises(TypeError, match=message):
        net.fit(*TRAIN)


def test_own_validation_set_is_scaled_by_hand_before_a_pipeline():
    scaler = StandardScaler().fit(TRAIN[0])
    dataset = Dataset(scaler.transform(VALID[0]), VALID[1])
    net = clone(NET).set_params(train_split=predefined_split(dataset))
    pipe = make_pipeline(StandardScaler(), net).fit(*TRAIN)
    expected = log_loss(VALID[1], pipe.predict_proba(VALID[0]))
    assert net.history_[-1, "valid_log_loss"] == pytest.approx(expected, rel=1e-6)


# The same as arguments of fit --------------------------------------------------------


def fit_with(valid, **params):
    X_val, y_val = valid
    return clone(NET).set_params(**params).fit(*TRAIN, X_val=X_val, y_val=y_val)


@pytest.mark.parametrize("convert", [np.asarray, pd.DataFrame, csr_array])
def test_validation_set_of_fit_equals_a_predefined_split(convert):
    split = predefined_split(Dataset(convert(VALID[0]), VALID[1]))
    params = {"loss": "adafocal", "loss__n_bins": 5, "lr": 0.1, "max_epochs": 20}
    params |= {"early_stopping": True, "n_iter_no_change": 1}
    net = fit_with((convert(VALID[0]), pd.Series(VALID[1])), **params)
    assert len(net.history_) < 20
    twin = clone(NET).set_params(train_split=split, **params).fit(*TRAIN)
    for name in ("valid_log_loss", "gamma"):
        assert net.history_[:, name] == twin.history_[:, name]
    np.testing.assert_array_equal(net.predict_proba(X), twin.predict_proba(X))


def test_validation_set_of_fit_is_a_dataset_like_x():
    net = fit_with(VALID)
    slices = SliceDataset(Dataset(VALID[0].astype("float32"), VALID[1]))
    for valid in [(Dataset(*VALID), None), (slices, VALID[1])]:
        assert (
            fit_with(valid).history_[:, "valid_loss"] == net.history_[:, "valid_loss"]
        )


@pytest.mark.parametrize(
    ("valid", "params", "message"),
    [
        ((VALID[0], None), {}, "y_val must be given if X_val is, got None"),
        ((None, VALID[1]), {}, "X_val must be given if y_val is, got None"),
        ((X[150:, :5], VALID[1]), {}, "^Validation set: X has 5 features, but"),
        ((VALID[0], VALID[1][1:]), {}, r"inconsistent .*\[50, 49\]"),
        ((Dataset(*VALID), VALID[1]), {}, "y_val must be None if X_val is a Dataset"),
        (
            (VALID[0], ["elk"] * 50),
            {},
            r"^Validation set: y must contain only .*got also \['elk'\]",
        ),
        (VALID, {"train_split": predefined_split(Dataset(*VALID))}, "train_split must"),
        (VALID, {"validation_fraction": 0.2}, r"fraction must not be set .* got 0\.2"),
        (
            VALID,
            {"refit": True},
            "refit must not be set if X_val is given, got True",
        ),
    ],
)
def test_validation_set_of_fit_that_is_wrong(valid, params, message):
    with pytest.raises(ValueError, match=message):
        fit_with(valid, **params)


def test_a_pipeline_scales_the_validation_set_of_fit():
    with sklearn.config_context(enable_metadata_routing=True):
        net = clone(NET).set_fit_request(X_val=True, y_val=True)
        steps = [("scale", StandardScaler()), ("net", net)]
        pipe = Pipeline(steps, transform_input=["X_val"])
        pipe.fit(*TRAIN, X_val=VALID[0], y_val=VALID[1])
        expected = log_loss(VALID[1], pipe.predict_proba(VALID[0]))
    assert net.history_[-1, "valid_log_loss"] == pytest.approx(expected, rel=1e-6)


def test_the_held_out_part_of_a_fold_is_the_validation_set_of_fit():
    options = {"cv": StratifiedKFold(2), "held_out_as": ("X_val", "y_val")}
    model = CalibratedClassifier(NET, "temperature", **options).fit(X, y)
    (train, test), _ = StratifiedKFold(2).split(X, y)
    twin = clone(NET).fit(X[train], y[train], X_val=X[test], y_val=y[test])
    history = model.calibrated_classifiers_[0].estimator.history_
    assert history[:, "valid_loss"] == twin.history_[:, "valid_loss"]


def test_a_checkpoint_of_another_validation_set_is_refused(tmp_path):
    params = {"callbacks": [Checkpoint(tmp_path / "net.pt")]}
    net = fit_with(VALID, **params)
    again = fit_with(VALID, **params)
    np.testing.assert_array_equal(again.predict_proba(X), net.predict_proba(X))
    with pytest.raises(ValueError, match=r"net\.pt"):
        fit_with((VALID[0] + 1, VALID[1]), **params)


# Sizes of modules --------------------------------------------------------------------


class Linear(nn.Linear):
    def __init__(self, n_features, num_classes=1000):
        super().__init__(n_features, num_classes)


def test_num_classes_is_filled_in():
    net = NeuralClassifier(Linear, max_epochs=1).fit(X, y)
    assert net.module_.out_features == 3
    net.set_params(module__num_classes=3, module__n_features=20).fit(X, y)


def test_num_classes_of_an_encoder_is_not_filled_in():
    quick = RefCalClassifier(Linear, refine__max_epochs=1, head__max_epochs=1)
    assert quick.fit(X[:30], y[:30]).encoder_.out_features == 1000
    quick.set_params(encoder__num_classes=7).fit(X[:30], y[:30])
    assert quick.transform(X).shape == (200, 7)


class Wrapped(nn.Linear):
    """A module that returns an object with logits, as those of transformers."""

    def forward(self, X):
        return SimpleNamespace(logits=super().forward(X))


def test_an_object_with_logits_is_refused():
    net = NeuralClassifier(Wrapped, module__in_features=20, module__out_features=3)
    message = "must return a tensor of logits, got SimpleNamespace. Return its logits"
    with pytest.raises(TypeError, match=message):
        net.fit(X, y)


def test_columns_that_need_a_scaler_are_warned_about():
    table, labels = np.random.default_rng(0).random((12, 3)), np.arange(12) % 2
    large = table * [1, -50_000, 1]
    net = NeuralClassifier(max_epochs=1)
    with pytest.warns(UserWarning, match=r"up to 4.* columns \[1\]\. .*StandardSc"):
        clone(net).fit(large, labels)
    clone(net).fit(9_000 * table, labels)
    make_pipeline(StandardScaler(), clone(net)).fit(large, labels)
    # Another module may scale its input.
    own = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))
    NeuralClassifier(own, max_epochs=1).fit(large, labels)


# Images ------------------------------------------------------------------------------

QUICK = RefCalClassifier(
    refine__max_epochs=1, head__max_epochs=1, encoder__n_filters=2, encoder__n_stages=1
)
SMALL = NeuralClassifier(max_epochs=1, module__n_filters=2, module__n_stages=1)


@pytest.mark.parametrize("shape", [(8, 8, 1), (8, 9, 3), (16, 6, 4)])
@pytest.mark.parametrize("estimator", [SMALL, QUICK])
def test_channels_in_the_last_dimension_are_warned_about(shape, estimator):
    images, labels = np.random.default_rng(0).random((12, *shape)), np.arange(12) % 2
    message = f"{shape[2]} channels in the last dimension.*{shape[0]} input channels"
    with pytest.warns(UserWarning, match=message):
        clone(estimator).fit(images, labels)
    clone(estimator).fit(np.moveaxis(images, -1, 1), labels)


@pytest.mark.parametrize(
    "shape", [(1, 8, 8), (3, 8, 3), (4, 4, 4), (8, 8, 8), (8, 1, 1)]
)
def test_other_images_are_not_warned_about(shape):
    images, labels = np.random.default_rng(0).random((12, *shape)), np.arange(12) % 2
    clone(SMALL).fit(images, labels)


def test_no_warning_where_the_network_says_what_it_takes():
    images, labels = np.random.default_rng(0).random((12, 8, 8, 1)), np.arange(12) % 2
    clone(SMALL).set_params(module__n_channels=8).fit(images, labels)
    flat = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    NeuralClassifier(flat, max_epochs=1).fit(images, labels)
    with pytest.warns(UserWarning, match="last dimension"):
        net = clone(SMALL).fit(images, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net.predict(images)
        loaded = NeuralClassifier.__new__(NeuralClassifier)
        loaded.__setstate__(net.__getstate__())
    torch.testing.assert_close(loaded.module_.state_dict(), net.module_.state_dict())
