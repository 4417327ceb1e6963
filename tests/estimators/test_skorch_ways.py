"""What skorch documents for its nets: sliced datasets, added parts, trimmed nets."""

import pickle
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from skorch.callbacks import Callback, EpochScoring
from skorch.dataset import Dataset
from skorch.exceptions import (
    NotInitializedError,
    SkorchAttributeError,
    SkorchTrainingImpossibleError,
)
from skorch.helper import SliceDataset
from torch import nn

from sklearn_calib import CalibratedClassifier, NeuralClassifier, TemperatureScaling
from sklearn_calib.callbacks import Checkpoint

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 4))
y = np.array(["a", "b", "c"])[X[:, :3].argmax(axis=1)]
NET = NeuralClassifier(lr=0.01, max_epochs=2, batch_size=16, random_state=0)
SLICES = SliceDataset(Dataset(X, y))


# SliceDataset -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "case",
    [
        ({}, {}),
        ({"validation_fraction": 0.2}, {}),
        ({"validation_fraction": 0.2, "use_caching": False}, {}),
        ({"early_stopping": True, "refit": True}, {}),
        ({"class_weight": "balanced"}, {"sample_weight": rng.integers(0, 3, 60)}),
        ({"iterator_train__drop_last": True}, {}),
    ],
)
def test_slices_train_the_same_network_as_an_array(case):
    params, fit_params = case
    few = {"module__hidden_sizes": (8,), "max_epochs": 1, "batch_size": 32}
    net = clone(NET).set_params(**few, **params)
    wanted = clone(net).fit(X, y, **fit_params).predict_proba(X)
    net.fit(SLICES, SliceDataset(Dataset(X, y), idx=1), **fit_params)
    np.testing.assert_array_equal(net.predict_proba(SLICES), wanted)
    assert net.score(SLICES, y) == net.score(X, y)
    assert net.n_features_in_ == 4


def test_slices_are_read_one_batch_at_a_time():
    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return len(X)

        def __getitem__(self, i):
            return X[i], y[i]

    class Unread(SliceDataset):
        def __array__(self, dtype=None):
            raise AssertionError

    net = clone(NET).fit(Unread(Rows()), y)
    np.testing.assert_array_equal(net.predict(Unread(Rows())), net.predict(X))


@pytest.mark.parametrize(
    "model",
    [
        GridSearchCV(NET, {"lr": [0.1, 0.01]}, cv=2, error_score="raise"),
        CalibratedClassifier(NET, TemperatureScaling(), cv=2),
    ],
)
def test_slices_are_searched_and_calibrated(model):
    few = {"estimator__module__hidden_sizes": (8,), "estimator__max_epochs": 1}
    model = clone(model).set_params(**few)
    wanted = clone(model).fit(X, y).predict_proba(X)
    found = clone(model).fit(SLICES, y).predict_proba(SLICES)
    np.testing.assert_array_equal(found, wanted)


def test_slices_of_dicts_and_validation_sets_and_checkpoints(tmp_path):
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 3)

        def forward(self, one, two):
            return self.linear(one + two)

    rows = [({"one": row, "two": row}, label) for row, label in zip(X, y, strict=True)]
    net = clone(NET).set_params(module=Sum, train_split=False)
    net.fit(SliceDataset(rows), y)
    np.testing.assert_array_equal(
        net.predict(SliceDataset(rows)), net.predict({"one": X, "two": X})
    )
    net = NeuralClassifier(random_state=0).partial_fit(
        SLICES, y, classes=["a", "b", "c"], validation=(SLICES, y)
    )
    assert "valid_log_loss" in net.history_[-1]
    callbacks = [Checkpoint(tmp_path / "net")]
    clone(NET).set_params(callbacks=callbacks).fit(SLICES, y)


@pytest.mark.parametrize(
    "case",
    [
        (SliceDataset(Dataset(X * np.nan, y)), y, "Input X contains NaN"),
        (SLICES[:0], y, "X must contain at least one sample, got an empty"),
        (SLICES, y[:-1], "inconsistent numbers of samples"),
        (SLICES, rng.normal(size=60), "Unknown label type: continuous"),
    ],
)
def test_invalid_slices(case):
    slices, labels, message = case
    with pytest.raises(ValueError, match=message):
        clone(NET).fit(slices, labels)


def test_slices_with_other_features():
    net = clone(NET).fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features, but NeuralClassifier is"):
        net.predict(SliceDataset(Dataset(X[:, :3], y)))


# Subclasses with more modules, losses and optimizers --------------------------------


class Part(nn.Module):
    def __init__(self, n_hidden=5):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, n_hidden), nn.Linear(n_hidden, 3))

    def forward(self, X):
        return self.layers(X)


class Scaled(nn.CrossEntropyLoss):
    def __init__(self, factor=1.0):
        super().__init__()
        self.factor = factor

    def forward(self, logits, target):
        return self.factor * super().forward(logits, target)


class TwoModules(NeuralClassifier):
    """A net whose second module is a parameter, with an optimizer of its own."""

    def __init__(self, *args, module2=Part, criterion2=Scaled, **kwargs):
        self.module2, self.criterion2 = module2, criterion2
        super().__init__(*args, **kwargs)

    def initialize_module(self):
        super().initialize_module()
        params = self.get_params_for("module2")
        self.module2_ = self.initialized_instance(self.module2, params)
        return self

    def initialize_criterion(self):
        super().initialize_criterion()
        params = self.get_params_for("criterion2")
        self.criterion2_ = self.initialized_instance(self.criterion2, params)
        return self

    def initialize_optimizer(self):
        for name, module in [
            ("optimizer", self.module_),
            ("optimizer2", self.module2_),
        ]:
            named = module.named_parameters()
            args, options = self.get_params_for_optimizer(name, named)
            kind = self.optimizer if name == "optimizer" else torch.optim.Rprop
            setattr(self, f"{name}_", kind(*args, **options))
        return self

    def infer(self, x, **fit_params):
        return super().infer(x, **fit_params) + self.module2_(x)

    def get_loss(self, y_pred, y_true, *args, **kwargs):
        own = super().get_loss(y_pred, y_true, *args, **kwargs)
        return own + self.criterion2_(y_pred, y_true)


class HiddenModule(NeuralClassifier):
    """A net whose second module is not a parameter."""

    def initialize_module(self):
        super().initialize_module()
        self.module2_ = Part(**self.get_params_for("module2"))
        return self

    def infer(self, x, **fit_params):
        return super().infer(x, **fit_params) + self.module2_(x)


@pytest.mark.parametrize("kind", [TwoModules, HiddenModule])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_second_module_has_parameters(kind, dtype):
    def n_hidden(net):
        return net.module2_.layers[0].out_features

    params = {"max_epochs": 1, "batch_size": -1, "module__hidden_sizes": (8,)}
    net = kind(dtype=dtype, module2__n_hidden=7, random_state=0, **params)
    assert n_hidden(net.fit(X, y)) == 7
    assert n_hidden(clone(net).set_params(module2__n_hidden=3).fit(X, y)) == 3
    assert net.get_params()["module2__n_hidden"] == 7
    copied = pickle.loads(pickle.dumps(net))
    np.testing.assert_array_equal(copied.predict_proba(X), net.predict_proba(X))
    net.set_params(module2__n_hidden=2, warm_start=True).fit(X, y)
    assert n_hidden(net) == 2
    weight = net.module2_.layers[0].weight
    assert weight.dtype == getattr(torch, dtype)
    before = weight.detach().clone()
    assert not torch.equal(net.fit(X, y).module2_.layers[0].weight, before)


def test_a_second_module_is_searched_and_calibrated():
    grid = {"module2__n_hidden": [2, 3]}
    params = {"max_epochs": 1, "lr": 0.01, "module__hidden_sizes": (8,)}
    net = TwoModules(random_state=0, **params)
    search = GridSearchCV(net, grid, cv=2, error_score="raise")
    assert search.fit(X, y).best_params_["module2__n_hidden"] in (2, 3)
    model = CalibratedClassifier(
        search.best_estimator_, TemperatureScaling(), cv=2, n_repeats=1
    )
    assert model.fit(X, y).predict_proba(X).shape == (60, 3)


def test_more_losses_and_optimizers_have_parameters():
    params = {"optimizer2__lr": 0.5, "criterion2__factor": 2.0}
    net = TwoModules(max_epochs=1, module2=Part(), **params).fit(X, y)
    assert net.criterion2_.factor == 2.0
    assert net.optimizer2_.param_groups[0]["lr"] == 0.5
    net.set_params(optimizer2__lr=0.1)
    assert net.optimizer2_.param_groups[0]["lr"] == 0.1
    net.trim_for_prediction()
    assert net.optimizer2_ is net.criterion2_ is None
    assert net.predict(X).shape == (60,)


@pytest.mark.parametrize("kind", [TwoModules, HiddenModule])
def test_a_typing_error_is_found_when_the_parts_are_built(kind):
    net = kind(max_epochs=1, modul2__n_hidden=7)
    with pytest.raises(TypeError, match=r"'modul2__n_hidden' is not a .*'module2__'"):
        net.fit(X, y)
    assert not net.initialized_
    net = kind(max_epochs=1).fit(X, y)
    with pytest.raises(ValueError, match="Invalid parameter 'modul2__n_hidden'"):
        net.set_params(modul2__n_hidden=7)


def test_a_module_is_set_in_a_method_that_builds_parts():
    net = clone(NET).fit(X, y)
    with pytest.raises(SkorchAttributeError, match="outside of an initialize method"):
        net.module2_ = Part()


# Trimmed nets -----------------------------------------------------------------------


def test_a_trimmed_net_predicts_and_is_not_trained():
    net = clone(NET).fit(X, y)
    wanted = net.predict_proba(X)
    net.trim_for_prediction()
    np.testing.assert_array_equal(net.predict_proba(X), wanted)
    for train in (net.fit, net.partial_fit, lambda *_: net.initialize()):
        with pytest.raises(SkorchTrainingImpossibleError, match="trimmed for predict"):
            train(X, y)


# Callbacks, and what else skorch accepts --------------------------------------------


def test_callbacks_have_the_methods_of_callbacks():
    class Duck:
        """A callback that does not inherit from skorch's class."""

        n_epochs = 0

        def __getattr__(self, name):
            if not name.startswith(("on_", "initialize", "set_params", "get_params")):
                raise AttributeError(name)
            return lambda *_, **__: {}

        def on_epoch_end(self, *_, **__):
            self.n_epochs += 1

    mocked, duck = Mock(spec=Callback), Duck()
    mocked.get_params.return_value = {}
    scoring = EpochScoring("accuracy", name="train_acc", on_train=True)
    callbacks = [mocked, ("duck", duck), ("scoring", scoring), ("none", None), Callback]
    clone(NET).set_params(callbacks=callbacks).fit(X, y)
    assert mocked.on_epoch_end.call_count == duck.n_epochs == 2
    for callback in ("stop", print, int, ("duck", 3)):
        with pytest.raises(TypeError, match="`callbacks` must hold skorch callbacks"):
            clone(NET).set_params(callbacks=[callback]).fit(X, y)


def test_a_replaced_method_is_not_a_parameter():
    net = clone(NET)
    net.get_loss = Mock(side_effect=net.get_loss)
    net.fit(X, y)
    assert net.get_loss.call_count == 2 * 4
    net.learning_rate = 0.1
    with pytest.raises(TypeError, match="'learning_rate' is not a parameter"):
        net.fit(X, y)


def test_no_split():
    net = clone(NET).set_params(train_split=False).fit(X, y)
    assert "valid_loss" not in net.history_[-1]


def test_errors_of_skorch(tmp_path):
    with pytest.raises(NotInitializedError):
        NeuralClassifier().predict(X)
    net = clone(NET).fit(X, y)
    for method in (net.load_params, net.save_params):
        with pytest.raises(TypeError, match="both f_params and f_module"):
            method(f_params=tmp_path / "one", f_module=tmp_path / "two")
