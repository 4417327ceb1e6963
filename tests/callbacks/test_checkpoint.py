"""A killed training run resumes from its checkpoint with identical results."""

import importlib.util
import pickle
import random
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback, EarlyStopping, LRScheduler

from sklearn_calib import NeuralClassifier
from sklearn_calib.callbacks import Checkpoint

SCRIPT = Path(__file__).with_name("train_with_checkpoint.py")
spec = importlib.util.spec_from_file_location(SCRIPT.stem, SCRIPT)
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)
X, y, PARAMS = script.X, script.y, script.PARAMS

all_losses = pytest.mark.parametrize("loss", PARAMS)


class KilledError(Exception):
    """Error that interrupts a training run in the process of the test."""


class Kill(Callback):
    """Raise in the middle of an epoch."""

    def __init__(self, epoch):
        self.epoch = epoch

    def on_batch_end(self, net, training=False, **kwargs):
        if (
            training
            and len(net.history) == self.epoch
            and len(net.history[-1, "batches"]) == 1
        ):
            raise KilledError


@cache
def describe_whole(loss, max_epochs=5):
    """Return the results of a training without a break, once for each loss."""
    return script.describe(script.build(loss, None, max_epochs).fit(X, y))


def assert_same(net, expected):
    described = script.describe(net)
    assert described.keys() == expected.keys()
    for name in expected:
        np.testing.assert_array_equal(described[name], expected[name], err_msg=name)


def train_killed(net, epochs, callbacks=()):
    """Train a net that is killed in some epochs, and resumes from its checkpoint."""
    own = list(net.callbacks)
    for epoch in epochs:
        net.set_params(callbacks=[*own, *(f() for f in callbacks), Kill(epoch)])
        with pytest.raises(KilledError):
            net.fit(X, y)
        net = NeuralClassifier(**net.get_params(deep=False))
        own = [type(each)(**each.get_params()) for each in own]
    return net.set_params(callbacks=[*own, *(f() for f in callbacks)]).fit(X, y)


@all_losses
@pytest.mark.parametrize("epochs", [[1], [2, 3], [5]])
def test_a_killed_training_equals_a_whole_one(loss, epochs, tmp_path):
    net = train_killed(script.build(loss, tmp_path / "net.ckpt"), epochs)
    assert_same(net, describe_whole(loss))
    assert [path.name for path in tmp_path.iterdir()] == ["net.ckpt"]


@all_losses
def test_a_training_goes_on_with_more_epochs(loss, tmp_path):
    whole = describe_whole(loss)
    script.build(loss, str(tmp_path / "net.ckpt"), max_epochs=3).fit(X, y)
    longer = script.build(loss, str(tmp_path / "net.ckpt"))
    assert_same(longer.fit(X, y), whole)
    before = (tmp_path / "net.ckpt").stat().st_mtime_ns
    assert_same(longer.fit(X, y), whole)  # all epochs are already done
    assert (tmp_path / "net.ckpt").stat().st_mtime_ns > before


@pytest.mark.parametrize(
    "callback",
    [
        lambda: LRScheduler("StepLR", step_size=2, gamma=0.5),
        lambda: LRScheduler("CosineAnnealingLR", T_max=9, step_every="batch"),
        lambda: LRScheduler("ReduceLROnPlateau", patience=0, threshold=0.1),
        lambda: EarlyStopping(patience=4, threshold=0.2, load_best=True),
    ],
    ids=["steps", "batches", "plateau", "early stopping"],
)
@pytest.mark.parametrize("epochs", [[2], [4, 5]])
def test_callbacks_with_a_state(callback, epochs, tmp_path):
    net = build_held_out(tmp_path / "net.ckpt")
    assert_same(train_killed(net, epochs, [callback]), describe_with(callback))


def build_held_out(file):
    net = script.build("cross_entropy", file, 6)
    return net.set_params(validation_fraction=0.2, lr=0.02)


@cache
def describe_with(callback):
    net = build_held_out(None).set_params(callbacks=[callback()])
    return script.describe(net.fit(X, y))


def build_stopping(file):
    net = script.build("cross_entropy", file, 60)
    return net.set_params(early_stopping=True, n_iter_no_change=3, lr=0.03)


@cache
def describe_stopped():
    net = build_stopping(None).fit(X, y)
    assert 7 < len(net.history_) < 60
    return script.describe(net)


@pytest.mark.parametrize("epochs", [[3], [5, 6]])
def test_early_stopping(epochs, tmp_path):
    net = train_killed(build_stopping(tmp_path / "net.ckpt"), epochs)
    assert_same(net, describe_stopped())
    assert_same(net.fit(X, y), describe_stopped())


@pytest.mark.slow
def test_killed_processes(start, end, tmp_path):
    """The process is killed during an epoch, then while it writes."""
    net, result = tmp_path / "net.ckpt", tmp_path / "result.npz"
    for moment in ("training", "writing"):
        assert end(start(SCRIPT, "adafocal", net, result, moment)) == 9
        assert not result.exists()
    assert len(list(tmp_path.glob("net.ckpt.*.part"))) == 1
    whole = describe_whole("adafocal", script.LONG)
    assert_same(script.build("adafocal", net, script.LONG).fit(X, y), whole)


@pytest.mark.slow
@all_losses
def test_twenty_kills_at_random_moments(loss, start, end, tmp_path):
    """A new checkpoint shows that training has started; imports are slow."""
    draw, n_killed = random.Random(0), 0
    net, result = tmp_path / "net.ckpt", tmp_path / "result.npz"
    for _ in range(400):
        if n_killed == 20:
            break
        before = when_written(net)
        process = start(SCRIPT, loss, net, result, "never")
        while process.is_alive() and when_written(net) == before:
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.05))
        process.kill()
        n_killed += end(process) != 0
        if result.exists():  # it was done
            result.unlink()
            net.unlink()
    assert n_killed == 20, "most trainings end before they are killed"
    assert end(start(SCRIPT, loss, net, result, "never")) == 0
    found, whole = np.load(result), describe_whole(loss, script.LONG)
    assert set(found) == set(whole)
    for name, value in whole.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def when_written(file):
    return file.stat().st_mtime_ns if file.exists() else None


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda _: b"",
        lambda _: b"not a checkpoint",
        lambda _: pickle.dumps({"key": 1}),
        lambda content: content[:20] + bytes(20) + content[40:],
    ],
)
def test_damaged_files_are_named(damage, tmp_path):
    file = tmp_path / "net.ckpt"
    net = script.build("cross_entropy", file, 2).fit(X, y)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(
        ValueError, match=r"net.ckpt' must be a file written by Checkpoint"
    ):
        net.fit(X, y)


def test_a_file_of_torch_is_no_checkpoint(tmp_path):
    torch.save({"weights": torch.zeros(3)}, tmp_path / "net.ckpt")
    with pytest.raises(ValueError, match="a different or damaged file: Saf"):
        script.build("cross_entropy", tmp_path / "net.ckpt", 2).fit(X, y)


@pytest.mark.parametrize(
    "params",
    [{"optimizer__lr": 0.1}, {"module__hidden_sizes": (3,)}, {"random_state": 4}],
)
def test_a_checkpoint_of_another_training_is_refused(params, tmp_path):
    net = script.build("cross_entropy", tmp_path / "net.ckpt", 2).fit(X, y)
    with pytest.raises(ValueError, match="except for lr and max_epochs, got one from"):
        net.fit(X + 1, y)
    with pytest.raises(ValueError, match="except for lr and max_epochs, got one from"):
        net.fit(X, y, sample_weight=np.arange(1, len(X) + 1))
    other = script.build("cross_entropy", tmp_path / "net.ckpt", 2)
    with pytest.raises(ValueError, match="except for lr and max_epochs, got one from"):
        other.set_params(**params).fit(X, y)


class SetRate(Callback):
    """Set a learning rate at the start of epoch 4."""

    def on_epoch_begin(self, net, **kwargs):
        if len(net.history) == 4:
            net.optimizer_.param_groups[-1]["lr"] = 0.0003


# The biases have their own learning rate.
OF_BIASES = {"optimizer__param_groups": [("*.bias", {"lr": 0.05})]}


@pytest.mark.parametrize("params", [{}, OF_BIASES])
def test_a_new_learning_rate_applies_to_the_remaining_epochs(params, tmp_path):
    whole = script.build("cross_entropy", None).set_params(callbacks=[SetRate()])
    expected = script.describe(whole.set_params(**params).fit(X, y))
    net = script.build("cross_entropy", tmp_path / "net.ckpt", 3).set_params(**params)
    net.fit(X, y)
    net.set_params(lr=0.0003, max_epochs=5)
    net.callbacks.append(Kill(5))
    with pytest.raises(KilledError):
        net.fit(X, y)
    net.callbacks.pop()
    assert_same(net.fit(X, y), expected)
    rates = [group["lr"] for group in net.optimizer_.param_groups]
    assert rates == [0.05] * len(params) + [0.0003]


@pytest.mark.parametrize(
    ("max_epochs", "callbacks", "match"),
    [
        (2, [], r"must be at least 3, one more for lr=0\.1 than the epochs of the che"),
        (4, [("rates", LRScheduler())], r"lr must be 0\.001, .*'rates'.*got 0\.1\. R"),
    ],
)
def test_a_new_learning_rate_is_not_ignored(max_epochs, callbacks, match, tmp_path):
    net = script.build("cross_entropy", tmp_path / "net.ckpt", 2).fit(X, y)
    net.callbacks += callbacks
    with pytest.raises(ValueError, match=match):
        net.set_params(lr=0.1, max_epochs=max_epochs).fit(X, y)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"warm_start": True}, "warm_start must not be used with a Checkpoint"),
        ({"refit": True, "early_stopping": True}, "refit must not be used with"),
        ({"random_state": None}, "random_state must be an integer with a Checkp"),
        ({"max_epochs": 1}, "max_epochs must be at least 2, the epochs of the che"),
        ({"callbacks": [Checkpoint("a"), Checkpoint("b")]}, "must hold one sklearn_c"),
        ({"callbacks": [Checkpoint("a", every=0)]}, "every must be a positive int"),
    ],
)
def test_bad_parameters(params, match, tmp_path):
    net = script.build("cross_entropy", tmp_path / "net.ckpt", 2).fit(X, y)
    with pytest.raises(ValueError, match=match):
        net.set_params(**params).fit(X, y)


def test_partial_fit_is_refused(tmp_path):
    net = script.build("cross_entropy", tmp_path / "net.ckpt", 2)
    with pytest.raises(ValueError, match="partial_fit must not be used with a Chec"):
        net.partial_fit(X, y, classes=[0, 1, 2])


def test_a_net_of_skorch_is_refused(tmp_path):
    net = NeuralNetClassifier(
        torch.nn.Linear,
        module__in_features=20,
        module__out_features=3,
        callbacks=[Checkpoint(tmp_path / "net.ckpt")],
        verbose=0,
    )
    with pytest.raises(TypeError, match="must be a callback of NeuralClassifier, got"):
        net.fit(X.astype("f4"), y)


@pytest.mark.parametrize("file", [3, None, b"net.ckpt", np.array([1, 2])])
def test_a_file_of_another_type_is_refused(file):
    net = script.build("cross_entropy", None).set_params(callbacks=[Checkpoint(file)])
    with pytest.raises(TypeError, match="file must be a str or path-like, got"):
        net.fit(X, y)


def test_a_folder_is_refused(tmp_path):
    net = script.build("cross_entropy", tmp_path)
    with pytest.raises(ValueError, match="file must be the path of a file, got a f"):
        net.fit(X, y)


def test_every_few_epochs_and_in_a_new_folder(tmp_path):
    file = tmp_path / "new" / "net.ckpt"
    net = script.build("cross_entropy", file)
    net.set_params(callbacks=[Checkpoint(file, every=2), Kill(4)])
    with pytest.raises(KilledError):
        net.fit(X, y)
    net.set_params(callbacks=[Checkpoint(file, every=2)])
    assert_same(net.fit(X, y), describe_whole("cross_entropy"))


class Odd(Callback):
    """Callback with a state that cannot be stored without pickle."""

    def state_dict(self):
        return {"path": Path()}

    def load_state_dict(self, state):
        """Load nothing."""


def test_a_state_that_could_not_be_read_is_not_written(tmp_path):
    net = script.build("cross_entropy", tmp_path / "net.ckpt")
    net.callbacks.append(Odd())
    with pytest.raises(TypeError, match="must consist of tensors, numbers, strings"):
        net.fit(X, y)
    assert not list(tmp_path.iterdir())
