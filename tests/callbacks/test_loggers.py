"""skorch's loggers get numbers only, as their tools refuse anything else."""

import sys
from collections import defaultdict
from functools import cache
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_classification
from skorch.callbacks import (
    Callback,
    MlflowLogger,
    NeptuneLogger,
    SacredLogger,
    TensorBoard,
    WandbLogger,
)

from sklearn_calib import NeuralClassifier
from sklearn_calib.callbacks import RecordBins
from sklearn_calib.losses import CrossEntropyLoss

X, y = make_classification(n_samples=200, n_informative=5, n_classes=3, random_state=0)
NET = NeuralClassifier(
    loss="adafocal",
    loss__n_bins=3,
    module__hidden_sizes=(4,),
    max_epochs=2,
    validation_fraction=0.3,
    random_state=0,
)
LISTS = {"gamma", "calibration_gap", "bin_edges", "bin_confidence", "bin_weight"}
NUMBERS = {
    "train_loss",
    "valid_loss",
    "valid_acc",
    "valid_log_loss",
    "valid_ece",
    "dur",
}


class Client:
    """A tracking tool that keeps numbers, and refuses all else as the real ones do."""

    dir = None

    def __init__(self):
        self.kept = defaultdict(list)
        self.info = SimpleNamespace(run_id="0")

    def keep(self, name, value):
        if not isinstance(value, int | float | np.number):
            raise TypeError(f"{name} must be a number, got {value!r}")
        self.kept[name].append(float(value))

    def log_metric(self, run_id, key, value, step):  # noqa: ARG002 - MLflow
        self.keep(key, value)

    def log_scalar(self, name, value, step):  # noqa: ARG002 - Sacred
        self.keep(name, value)

    def add_scalar(self, tag, scalar_value, global_step):  # noqa: ARG002 - TensorBoard
        self.keep(tag, scalar_value)

    def log(self, values):  # Weights & Biases
        for name, value in values.items():
            self.keep(name, value)

    def ignore(self, *args, **kwargs):
        """Do nothing, such as to close a file."""

    close = log_artifact = set_terminated = stop = watch = ignore

    def __getitem__(self, path):  # Neptune
        return NeptuneSeries(self, path)

    def __setitem__(self, path, value):
        pass


class NeptuneSeries:
    """The values below a path of a Neptune run."""

    def __init__(self, client, path):
        self.client, self.path = client, path

    def __getitem__(self, name):
        return NeptuneSeries(self.client, f"{self.path}/{name}")

    def __setitem__(self, name, value):
        pass

    def append(self, value):
        self.client.keep(self.path, value)


LOGGERS = {
    "mlflow": lambda client: MlflowLogger(client, client),
    "neptune": lambda client: NeptuneLogger(client, close_after_train=False),
    "sacred": SacredLogger,
    "tensorboard": lambda client: TensorBoard(client, key_mapper=str),
    "wandb": lambda client: WandbLogger(client, save_model=False),
}


@pytest.fixture(autouse=True)
def neptune(monkeypatch):
    """Stand in for the module that skorch's NeptuneLogger imports."""
    module = ModuleType("neptune.types")
    module.File = SimpleNamespace(from_content=lambda *args, **kwargs: None)
    monkeypatch.setitem(sys.modules, "neptune", ModuleType("neptune"))
    monkeypatch.setitem(sys.modules, "neptune.types", module)


def kept_by(name, *callbacks, **params):
    """Return what a tool keeps of a training."""
    client = Client()
    net = clone(NET).set_params(**params)
    net.set_params(callbacks=[*callbacks, ("logger", LOGGERS[name](client))]).fit(X, y)
    if name != "neptune":
        return client.kept, net.history_
    kept = {
        path.removeprefix("training/")
        .replace("validation/", "valid/")
        .replace("epoch_duration", "dur")
        .replace("/epoch/", "_"): values
        for path, values in client.kept.items()
    }
    return kept, net.history_


each_logger = pytest.mark.parametrize("name", LOGGERS)


@each_logger
def test_history_with_lists_is_safe_for_loggers(name):
    kept, history = kept_by(name)
    assert set(history[-1]) >= LISTS | NUMBERS
    assert {*kept} >= NUMBERS
    assert not LISTS & {*kept}
    assert kept["valid_ece"] == pytest.approx(history[:, "valid_ece"])


@cache
def names_kept_of_focal(name):
    return {*kept_by(name, loss="focal", max_epochs=1)[0]}


@each_logger
@pytest.mark.parametrize("update_every", ["epoch", 1])
def test_lists_of_bins_and_updates_between_batches(name, update_every):
    params = {"callbacks__update_loss__update_every": update_every, "batch_size": 70}
    params["max_epochs"] = 1
    kept, history = kept_by(name, RecordBins(n_bins=4, binning="independent"), **params)
    assert "train_bin_edges" in history[-1]
    assert {*kept} == names_kept_of_focal(name)


@each_logger
def test_loggers_before_the_recording_callback(name):
    client = Client()
    callbacks = [("logger", LOGGERS[name](client)), RecordBins(n_bins=3)]
    clone(NET).set_params(loss="focal", callbacks=callbacks).fit(X, y)
    assert client.kept


def test_names_that_the_user_ignores_are_ignored_still():
    client = Client()
    logger = SacredLogger(client, keys_ignored=["valid_ece"])
    net = clone(NET).set_params(callbacks=[("logger", logger)])
    for _ in range(2):
        net.fit(X, y)
    assert "valid_loss" in client.kept
    assert not client.kept.keys() & {"valid_ece", "gamma"}
    assert logger.keys_ignored == ["valid_ece"]


class Counter(CrossEntropyLoss):
    """Loss that returns numbers of any kind, and what is no number."""

    learns_from_validation = True

    def update(self, y_true, y_proba):
        n_true = len(y_true)
        return {
            "n_int": n_true,
            "n_float32": np.float32(n_true),
            "n_int64": np.int64(n_true),
            "n_array": y_proba,
            "n_tensor": torch.tensor([1, 2]),
            "n_text": "many",
        }


@each_logger
def test_numbers_that_a_loss_learns_are_logged(name):
    kept, _ = kept_by(name, loss=Counter)
    learned = {key.replace("n/", "n_"): values for key, values in kept.items()}
    for kind in ("int", "float32", "int64"):
        assert learned[f"n_{kind}"] == [60.0] * 2
    assert len([key for key in learned if key.startswith("n_")]) == 3


def test_each_gamma_is_logged_by_a_callback_before_the_logger():
    """As the recipe says."""

    class Gammas(Callback):
        def on_epoch_end(self, net, **kwargs):
            for i, gamma in enumerate(net.history[-1, "gamma"]):
                net.history.record(f"gamma_{i}", gamma)

    kept, history = kept_by("mlflow", Gammas())
    np.testing.assert_array_equal(
        np.transpose([kept[f"gamma_{i}"] for i in range(3)]), history[:, "gamma"]
    )


def test_the_printed_table_has_numbers_only(capsys):
    clone(NET).set_params(verbose=1, max_epochs=2).fit(X, y)
    header, _, *rows = capsys.readouterr().out.splitlines()
    assert {"epoch", "valid_ece", "valid_refinement"} <= {*header.split()}
    assert not LISTS & {*header.split()}
    assert [len(row.split()) for row in rows] == [len(header.split())] * 2
