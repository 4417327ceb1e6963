"""NeuralClassifier, and CalibratedClassifier around it, in files."""

import copy
import json
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from skorch.callbacks import EpochTimer
from skorch.dataset import Dataset

from sklearn_calib import CalibratedClassifier, NeuralClassifier, TemperatureScaling
from sklearn_calib.calibrators import IsotonicCalibration, PlattScaling
from sklearn_calib.estimators import MLP, ConvNet
from sklearn_calib.losses import FocalLoss, MMCELoss, get_loss_names
from sklearn_calib.persistence import from_dict, load, save, to_dict

SMALL = {"module__hidden_sizes": (4,), "max_epochs": 1, "random_state": 0}


def through_file(model, tmp_path, **passed):
    save(model, tmp_path / "model.safetensors")
    return load(tmp_path / "model.safetensors", **passed)


def assert_equal(again, model, X):
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.classes_, model.classes_)


class TwoLayers(torch.nn.Module):
    """A module of a user's, with a number of units and a buffer."""

    def __init__(self, n_units, activation="relu", n_classes=3):
        super().__init__()
        self.first = torch.nn.Linear(6, n_units)
        self.second = torch.nn.Linear(n_units, n_classes)
        self.activation = getattr(torch, activation)
        scale = torch.linspace(0.5, 1, n_units)
        self.register_buffer("scale", scale, persistent=False)
        self.last = scale[-1].item()  # not possible on the meta device

    def forward(self, X):
        return self.second(self.activation(self.first(X)) * self.scale)


@pytest.mark.parametrize(
    "class_weight", ["balanced", {"a": 2, "b": 0.5}, {}, dict.fromkeys(np.arange(3), 2)]
)
def test_class_weight_comes_back(class_weight, net):
    net = copy.copy(net)
    net.class_weight = class_weight
    document = json.loads(json.dumps(to_dict(net)))
    assert from_dict(document).class_weight == class_weight


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_network_comes_back(dtype, table, tmp_path):
    X, y = table
    labels = np.array(["a", "b", "c"])
    net = NeuralClassifier(**SMALL, loss="focal", loss__gamma=2.0, dtype=dtype)
    net.set_params(posterior=True).fit(X, labels[y])
    again = through_file(net, tmp_path)
    assert_equal(again, net, X)
    assert repr(again) == repr(net.set_params(module__hidden_sizes=[4]))
    assert again.n_features_in_ == 6
    assert not again.history_
    with pytest.raises(ValueError, match="X has 5 features"):
        again.predict(X[:, :5])


@pytest.mark.parametrize("name", get_loss_names())
def test_a_network_of_every_loss_comes_back(name, table, tmp_path):
    X, y = table
    bins = name in ("calfocal", "adafocal", "ada_dual_focal")
    net = NeuralClassifier(**SMALL, loss=name, **{"loss__n_bins": 2} if bins else {})
    again = through_file(net.fit(X, y), tmp_path)
    assert_equal(again, net, X)
    state = again.criterion_.state_dict()
    assert all(torch.equal(v, state[k]) for k, v in net.criterion_.state_dict().items())


@pytest.mark.parametrize(
    ("params", "loss"),
    [
        ({"loss": FocalLoss}, "focal"),
        ({"loss": FocalLoss(gamma=4.0), "loss__gamma": 3.0}, "focal"),
        ({"loss": MMCELoss(base=FocalLoss(gamma=3.0)), "loss__lambd": 2.0}, "mmce"),
        ({"loss": "mmce", "loss__base": "focal", "loss__base__gamma": 3.0}, "mmce"),
        ({"loss": "mmce", "loss__base": FocalLoss(gamma=3.0)}, "mmce"),
    ],
)
def test_losses_of_the_package_are_saved_by_name(params, loss, table, tmp_path):
    net = NeuralClassifier(**SMALL, **params).fit(*table)
    again = through_file(net, tmp_path)
    assert again.loss == loss
    logits, target = torch.eye(3), torch.tensor([0, 1, 1])
    assert again.criterion_(logits, target) == net.criterion_(logits, target)


def test_images_with_batch_normalisation(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 1, 6, 6)), np.arange(60) % 2
    net = NeuralClassifier(
        ConvNet, module__n_filters=2, module__n_stages=2, max_epochs=1, random_state=0
    ).fit(X, y)
    again = through_file(net, tmp_path)
    assert_equal(again, net, X)
    assert again.module is ConvNet
    assert again.module_.features[0][1].num_batches_tracked == 1


def test_names_of_columns(table, tmp_path):
    X = pd.DataFrame(table[0], columns=list("abcdef"))
    net = NeuralClassifier(**SMALL).fit(X, table[1])
    again = through_file(net, tmp_path)
    assert again.feature_names_in_.tolist() == list("abcdef")


def test_a_module_of_the_user_is_passed(table, tmp_path):
    X, y = table
    params = {"module__n_units": 5, "module__activation": "tanh"}
    net = NeuralClassifier(TwoLayers, **params, max_epochs=1, random_state=0).fit(X, y)
    assert_equal(through_file(net, tmp_path, module=TwoLayers), net, X)
    with pytest.raises(ValueError, match=r"module must be passed .*\.TwoLayers'"):
        load(tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="MLP has no parameter 'n_units'"):
        load(tmp_path / "model.safetensors", module=MLP)


class TwoInputs(torch.nn.Module):
    """A module of a user's, with two inputs."""

    def __init__(self, n_classes):
        super().__init__()
        self.last = torch.nn.Linear(6, n_classes)

    def forward(self, code, size):
        return self.last(torch.cat([code.float(), size], dim=1))


def test_a_network_with_several_inputs(table, tmp_path):
    X = {"code": np.arange(270).reshape(90, 3) % 5, "size": table[0][:, :3]}
    net = NeuralClassifier(TwoInputs, max_epochs=1, random_state=0).fit(X, table[1])
    again = through_file(net, tmp_path, module=TwoInputs)
    assert_equal(again, net, X)
    with pytest.raises(ValueError, match=r"a dict of the inputs \['code', 'size'\]"):
        again.predict_proba(table[0])
    document = to_dict(net)
    state = document["object"]["state"]
    state["n_features_in_"] = 6
    with pytest.raises(ValueError, match=r"input_names must be alone, .*n_features_in"):
        from_dict(document, module=TwoInputs)
    del state["input_names"]
    with pytest.raises(ValueError, match=r"with input_names, .* got {'input_shape'}"):
        from_dict(document, module=TwoInputs)


def test_an_instance_of_the_user_is_passed(table, tmp_path):
    X, y = table

    def make():
        return torch.nn.Sequential(torch.nn.Linear(6, 3))

    net = NeuralClassifier(make(), max_epochs=1, random_state=0).fit(X, y)
    module = make()
    before = module[0].weight.clone()
    assert_equal(through_file(net, tmp_path, module=module), net, X)
    assert torch.equal(module[0].weight, before)


def test_a_module_with_other_outputs_is_refused(table, tmp_path):
    X, y = table
    net = NeuralClassifier(TwoLayers, module__n_units=5, max_epochs=1).fit(X, y)
    save(net, tmp_path / "net")

    class OneLogit(TwoLayers):
        def forward(self, X):
            return super().forward(X)[:, :1]

    again = load(tmp_path / "net", module=OneLogit)
    with pytest.raises(ValueError, match=r"logits of shape \(90, 3\), got shape"):
        again.predict_proba(X)


class OwnLoss(torch.nn.Module):
    """A loss of a user's."""

    def __init__(self, power=1.0):
        super().__init__()
        self.power = power

    def forward(self, logits, target):
        return torch.nn.functional.cross_entropy(logits, target) ** self.power


def test_a_loss_of_the_user_is_passed(table, tmp_path):
    net = NeuralClassifier(**SMALL, loss=OwnLoss, loss__power=2.0).fit(*table)
    again = through_file(net, tmp_path, loss=OwnLoss)
    assert_equal(again, net, table[0])
    assert again.criterion_.power == 2.0
    with pytest.raises(ValueError, match=r"loss must be passed to load this file"):
        load(tmp_path / "model.safetensors")


def test_what_is_not_needed_must_not_be_passed(net, tmp_path):
    with pytest.raises(ValueError, match="module must be None, since the file"):
        through_file(net, tmp_path, module=TwoLayers)
    with pytest.raises(ValueError, match=r"loss must be None, .* 'cross_entropy'"):
        load(tmp_path / "model.safetensors", loss=OwnLoss)


def test_what_only_training_uses_is_not_saved(table, tmp_path):
    net = NeuralClassifier(
        **SMALL,
        optimizer=torch.optim.SGD,
        optimizer__momentum=0.9,
        lr=0.1,
        callbacks=[("timer", EpochTimer())],
        batch_size=32,
        iterator_train__drop_last=True,
        iterator_valid__num_workers=0,
        iterator_valid__batch_size=7,
        batch_transform=lambda *batch: batch,
    ).fit(*table)
    again = through_file(net, tmp_path)
    assert_equal(again, net, table[0])
    assert (again.optimizer, again.callbacks) == (torch.optim.Adam, None)
    assert again.lr == 0.1
    assert again.get_params_for("iterator_valid") == {"batch_size": 7}
    assert again.batch_transform is None


class OwnDataset(Dataset):
    """A dataset of a user's."""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dataset", OwnDataset),
        ("dataset__length", 90),
        ("iterator_valid", torch.utils.data.DataLoader),
        ("iterator_valid__collate_fn", torch.utils.data.default_collate),
    ],
)
def test_what_may_change_predictions_is_refused(name, value, table, tmp_path):
    net = NeuralClassifier(**SMALL, **{name: value}).fit(*table)
    with pytest.raises(
        ValueError, match=f"{name} must have its default value, because"
    ):
        save(net, tmp_path / "net")


def test_a_loaded_network_trains_on(table, net, tmp_path):
    X, y = table
    again = through_file(net, tmp_path)
    copy = pickle.loads(pickle.dumps(again))
    again.partial_fit(X, y)
    assert len(again.history_) == 1
    assert np.abs(again.predict_proba(X) - copy.predict_proba(X)).max() > 0
    expected = clone(net).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(again.fit(X, y).predict_proba(X), expected)


def test_a_trimmed_network(table, net, tmp_path):
    trimmed = pickle.loads(pickle.dumps(net))
    trimmed.trim_for_prediction()
    assert_equal(through_file(trimmed, tmp_path), net, table[0])


def test_loading_draws_no_random_numbers(net, tmp_path):
    save(net, tmp_path / "net")
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    load(tmp_path / "net")
    assert torch.equal(torch.rand(3), expected)


def test_a_network_as_a_dict(net, table):
    again = from_dict(json.loads(json.dumps(to_dict(net), allow_nan=False)))
    assert_equal(again, net, table[0])


CODE = """
import sys, numpy as np, sklearn_calib
X = np.load(sys.argv[2])
np.save(sys.argv[3], sklearn_calib.load(sys.argv[1]).predict_proba(X))
"""


@pytest.mark.slow
def test_a_fresh_process(net, table, tmp_path):
    files = [str(tmp_path / name) for name in ("net.safetensors", "X.npy", "p.npy")]
    save(net, files[0])
    np.save(files[1], table[0])
    subprocess.run([sys.executable, "-c", CODE, *files], check=True)
    np.testing.assert_array_equal(np.load(files[2]), net.predict_proba(table[0]))


@pytest.mark.parametrize("method", [None, TemperatureScaling(), PlattScaling()])
@pytest.mark.parametrize("ensemble", [False, True])
def test_calibrated_networks(method, ensemble, net, table, tmp_path):
    X, y = table
    model = CalibratedClassifier(clone(net), method, cv=2, ensemble=ensemble)
    with warnings.catch_warnings(action="ignore"):
        model.fit(X, y)
    again = through_file(model, tmp_path)
    assert_equal(again, model, X)
    assert again.n_features_in_ == 6
    assert len(again.calibrated_classifiers_) == len(model.calibrated_classifiers_)
    assert clone(again).cv == 2
    with pytest.raises(AttributeError, match=r"reference_ needs .* and save does not"):
        _ = again.reference_
    with pytest.raises(AttributeError) as error:
        again.predict_interval(X)
    needed = "a calibrator of this package" if method is None else "the held-out predic"
    assert f"predict_interval needs {needed}" in str(error.value.__cause__)


@pytest.mark.filterwarnings("ignore:y contains no samples")
@pytest.mark.parametrize("method", [None, TemperatureScaling()])
def test_a_class_that_is_absent_from_a_fold(method, net, table, tmp_path):
    X, y = table
    folds = [(np.flatnonzero(y < 2), np.arange(90)), (np.arange(90), np.arange(90))]
    model = CalibratedClassifier(clone(net), method, cv=folds, ensemble=True).fit(X, y)
    for each in (model, model.uncalibrated()):
        again = through_file(each, tmp_path)
        assert_equal(again, each, X)
        pair, _ = again.calibrated_classifiers_
        assert pair.estimator.classes_.tolist() == [0, 1]


def test_a_calibrated_network_that_was_fitted_before(net, table, tmp_path):
    X, y = table
    frozen = FrozenEstimator(net)
    model = CalibratedClassifier(
        frozen, IsotonicCalibration(), response_method="predict_proba"
    ).fit(X, y)
    again = through_file(model, tmp_path)
    assert_equal(again, model, X)
    # New calibration data, without training the network again.
    expected = model.fit(X[::2], y[::2]).predict_proba(X)
    np.testing.assert_array_equal(again.fit(X[::2], y[::2]).predict_proba(X), expected)


def test_a_calibrated_module_of_the_user(table, tmp_path):
    X, y = table
    net = NeuralClassifier(TwoLayers, module__n_units=5, max_epochs=1, random_state=0)
    model = CalibratedClassifier(net, None, cv=StratifiedKFold(2), ensemble=True).fit(
        X, y
    )
    again = through_file(model, tmp_path, module=TwoLayers)
    assert_equal(again, model, X)
    assert again.cv is None


def test_other_classifiers_are_for_skops(table, tmp_path):
    model = CalibratedClassifier(LogisticRegression(), None, cv=2).fit(*table)
    with pytest.raises(TypeError, match=r"estimator must be .* skops or joblib"):
        save(model, tmp_path / "model")
