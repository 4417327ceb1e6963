"""Nets in files: pickles are complete, skops files do not run code."""

import copy
import io
import json
import os
import pickle
import zipfile
from functools import cache

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_classification
from skorch.callbacks import EarlyStopping, LRScheduler

from sklearn_calib import (
    CalibratedClassifier,
    NeuralClassifier,
    RefCalClassifier,
    TemperatureScaling,
)
from sklearn_calib.calibrators import (
    HistogramBinning,
    get_calibrator,
    get_calibrator_names,
)
from sklearn_calib.estimators import MLP
from sklearn_calib.losses import AdaFocalLoss, FocalLoss, get_loss_names

X, y = make_classification(
    n_samples=120,
    n_features=6,
    n_informative=6,
    n_redundant=0,
    n_classes=3,
    random_state=0,
)
NET = NeuralClassifier(
    module__hidden_sizes=(4,), max_epochs=2, warm_start=True, random_state=0
)
PROBA = np.random.default_rng(0).dirichlet([1, 1, 1], len(X))
PROBA = 0.7 * PROBA + 0.3 * np.eye(3)[y]
OWN = ["iterate_batches", "NeuralClassifier", "Dataset", "History", "Adam"]


def by_skops(model):
    """Return a model that was written and read, with all of its types trusted."""
    skops = pytest.importorskip("skops.io")
    content = skops.dumps(model)
    types = skops.get_untrusted_types(data=content)
    return skops.loads(content, trusted=types)


def by_pickle(model):
    return pickle.loads(pickle.dumps(model))


ways = pytest.mark.parametrize(
    "way",
    [by_skops, by_pickle, pytest.param(copy.deepcopy, marks=pytest.mark.slow)],
)


def net_of(loss, max_epochs):
    """Return a linear net that was trained with a loss."""
    net = clone(NET).set_params(
        loss=loss, max_epochs=max_epochs, module__hidden_sizes=()
    )
    if loss in ("calfocal", "adafocal", "ada_dual_focal"):
        net.set_params(loss__n_bins=2, callbacks__update_loss__update_every="epoch")
    return net.fit(X, y)


@cache
def first_part(loss):
    return net_of(loss, 1)


@cache
def proba_of_first_part(loss):
    return first_part(loss).predict_proba(X)


@cache
def proba_of_whole(loss):
    return net_of(loss, 2).predict_proba(X)


@ways
@pytest.mark.parametrize("loss", get_loss_names())
def test_a_net_of_every_loss_comes_back_and_trains_on(loss, way):
    net = first_part(loss)
    again = way(net)
    np.testing.assert_array_equal(again.predict_proba(X), proba_of_first_part(loss))
    assert again.history_ == net.history_
    # With Adam, whose state is half of the weights' future.
    again.fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(X), proba_of_whole(loss))
    assert len(again.history_) == 2


@ways
def test_a_net_that_was_not_fitted(way):
    again = way(clone(NET))
    assert again.get_params(deep=False) == NET.get_params(deep=False)
    assert not hasattr(again, "module_")
    expected = clone(NET).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(again.fit(X, y).predict_proba(X), expected)


@cache
def fitted_of(model):
    return clone(model).fit(X, y)


@ways
@pytest.mark.parametrize(
    "model",
    [
        clone(NET).set_params(early_stopping=True, loss=FocalLoss(gamma=3.0)),
        clone(NET).set_params(
            callbacks=[("lr", LRScheduler("StepLR", step_size=1)), EarlyStopping()],
            validation_fraction=0.2,
        ),
        NeuralClassifier(
            torch.nn.Linear,
            random_state=0,
            max_epochs=2,
            module__in_features=6,
            module__out_features=3,
            optimizer=torch.optim.SGD,
            optimizer__momentum=0.9,
            dtype="float64",
        ),
        CalibratedClassifier(NET, None, cv=2),
        RefCalClassifier(refine__max_epochs=1, head__max_epochs=1, random_state=0),
    ],
    ids=["early stopping", "callbacks", "own module", "calibrated", "refcal"],
)
def test_models_come_back(model, way):
    fitted = fitted_of(model)
    again = way(fitted)
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))


CALIBRATORS = {name: get_calibrator(name)() for name in get_calibrator_names()}
CALIBRATORS["auto"].set_params(
    calibrators=[TemperatureScaling(), HistogramBinning()], cv=2
)


@pytest.mark.parametrize("name", CALIBRATORS)
def test_calibrators_come_back(name):
    calibrator = CALIBRATORS[name].fit(PROBA, y)
    again = by_skops(calibrator)
    expected = calibrator.predict_proba(PROBA)
    np.testing.assert_array_equal(again.predict_proba(PROBA), expected)


def test_a_trimmed_net_comes_back():
    net = clone(NET).fit(X, y)
    expected = net.predict_proba(X)
    net.trim_for_prediction()
    for way in (by_pickle, by_skops):
        np.testing.assert_array_equal(way(net).predict_proba(X), expected)


def test_reading_draws_no_random_numbers():
    net = clone(NET).fit(X, y)
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    by_skops(net)
    torch.testing.assert_close(torch.rand(3), expected)


class RunsCommand:
    """Object whose pickle runs a command."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def in_zip(value):
    file = io.BytesIO()
    torch.save({"module": value}, file)
    return file.getvalue()


def before_zip(value):
    file = io.BytesIO()
    torch.save({"module": value}, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


def rewritten(content, change):
    """Return a skops file with another schema and other bytes."""
    with zipfile.ZipFile(io.BytesIO(content)) as old:
        files = {name: old.read(name) for name in old.namelist()}
    schema = json.loads(files["schema.json"])
    change(schema["content"]["content"], files)
    files["schema.json"] = json.dumps(schema).encode()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as new:
        for name, value in files.items():
            new.writestr(name, value)
    return file.getvalue()


def replace_bytes(payload):
    """Put the payload in the place of all bytes."""

    def change(_, files):
        names = [name for name in files if name.endswith(".bin")]
        assert names
        files.update(dict.fromkeys(names, payload))

    return change


def lift_guard(payload):
    """Ask for pickles besides."""

    def change(attributes, files):
        replace_bytes(payload)(attributes, files)
        unguarded = {**attributes["lr"], "content": '{"weights_only": false}'}
        attributes["torch_load_kwargs"] = {**unguarded, "__id__": 1}

    return change


def as_skorch_writes(payload):
    """Put the payload where skorch's state has its pickle."""

    def change(attributes, files):
        attributes["__cuda_dependent_attributes__"] = attributes.pop("_weights")
        lift_guard(payload)(attributes, files)

    return change


@cache
def honest_content():
    """Return the skops file of a net."""
    return pytest.importorskip("skops.io").dumps(clone(NET).fit(X, y))


@pytest.mark.parametrize("craft", [replace_bytes, as_skorch_writes, lift_guard])
@pytest.mark.parametrize("pack", [pickle.dumps, in_zip, before_zip])
def test_a_crafted_file_of_the_same_types_runs_no_command(craft, pack, tmp_path):
    skops = pytest.importorskip("skops.io")
    payload = pack(RunsCommand(f"touch {tmp_path / 'command_was_run'}"))
    honest = honest_content()
    crafted = rewritten(honest, craft(payload))
    types = skops.get_untrusted_types(data=honest)
    assert [name.rpartition(".")[2] for name in types] == OWN
    assert skops.get_untrusted_types(data=crafted) == types
    with pytest.raises(ValueError, match="state of NeuralClassifier must"):
        skops.loads(crafted, trusted=types)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("params", "name"),
    [({"module": MLP(6, 3)}, "module"), ({"loss": AdaFocalLoss(n_bins=2)}, "loss")],
)
def test_instances_with_tensors_are_for_pickle(params, name):
    net = NeuralClassifier(max_epochs=1, random_state=0, **params).fit(X, y)
    again = by_pickle(net)
    np.testing.assert_array_equal(again.predict_proba(X), net.predict_proba(X))
    with pytest.raises(ValueError, match=f"{name} must be a class to be saved without"):
        by_skops(net)


def freeze(net):
    next(net.module_.parameters()).requires_grad_(False)


def widen(net):
    layers = net.module_
    layers.extra = torch.nn.Linear(3, 3)


@pytest.mark.parametrize("change", [freeze, widen])
def test_a_network_that_was_changed_is_for_pickle(change):
    net = clone(NET).fit(X, y)
    change(net)
    again = by_pickle(net)
    np.testing.assert_array_equal(again.predict_proba(X), net.predict_proba(X))
    assert again.module_.state_dict().keys() == net.module_.state_dict().keys()
    with pytest.raises(ValueError, match="module_ must be the network that the param"):
        by_skops(net)
