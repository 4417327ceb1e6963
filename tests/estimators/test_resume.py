"""A training in two parts has, bit for bit, the results of one without a break."""

from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from skorch.callbacks import (
    Checkpoint,
    LoadInitState,
    LRScheduler,
    TrainEndCheckpoint,
)

from sklearn_calib import NeuralClassifier

X, y = make_classification(
    n_samples=200, n_informative=5, n_classes=3, flip_y=0.2, random_state=0
)
LABELS = np.array(["ant", "bee", "cat"])[y]
WEIGHT = np.random.default_rng(0).uniform(0.5, 2, len(X))
NET = NeuralClassifier(
    module__hidden_sizes=(8,),
    module__dropout=0.3,
    loss="focal",
    batch_size=80,
    lr=0.01,
    validation_fraction=0.2,
    random_state=0,
)
OF_ONE_RUN = ("batches", "dur", "event_cp")
EVERY_EPOCH = {"callbacks__update_loss__update_every": "epoch"}
SETTINGS = [
    {},
    {"loss": "adafocal", **EVERY_EPOCH},
    {"loss": "calfocal", **EVERY_EPOCH},
    {"loss": "crl"},
    {"dtype": "float64", "optimizer__amsgrad": True, "optimizer__weight_decay": 0.1},
]


def run(net, n_epochs, *callbacks, **params):
    net.set_params(max_epochs=n_epochs, callbacks=[*callbacks], **params)
    weighted = {} if net.loss == "crl" else {"sample_weight": WEIGHT}
    return net.fit(X, LABELS, **weighted)


@cache
def whole_run(number):
    """Return the net trained without a break."""
    return run(clone(NET).set_params(**SETTINGS[number]), 2)


def by_warm_start(net, folder):  # noqa: ARG001 - as the others
    run(net, 1, warm_start=True)
    return run(net, 1)


def by_checkpoint(net, folder):
    """In another process, with the files after the last epoch."""
    files = Checkpoint(monitor=None, dirname=folder)
    run(clone(net), 1, files)
    return run(net, 1, LoadInitState(Checkpoint(dirname=folder)))


def by_last_checkpoint(net, folder):
    """Run the same script twice."""
    for _ in range(2):
        files = TrainEndCheckpoint(dirname=folder)
        part = run(clone(net), 1, LoadInitState(files), files)
    return part


@pytest.mark.parametrize("go_on", [by_warm_start, by_checkpoint, by_last_checkpoint])
@pytest.mark.parametrize("params", SETTINGS, ids=lambda p: p.get("loss", "focal"))
def test_two_parts_equal_the_whole(go_on, params, tmp_path):
    whole = whole_run(SETTINGS.index(params))
    parts = go_on(clone(NET).set_params(**params), tmp_path)
    assert_same(parts, whole)
    state, expected = parts.criterion_.state_dict(), whole.criterion_.state_dict()
    for name in expected:
        np.testing.assert_array_equal(state[name], expected[name])


def test_a_file_with_another_learning_rate_warns_of_it(tmp_path):
    files = Checkpoint(monitor=None, dirname=tmp_path)
    run(clone(NET), 1, files)
    changed = r"with the learning rate \[0\.01\] of the file, not with \[0\.001\]\. To"
    with pytest.warns(UserWarning, match=changed):
        run(clone(NET), 1, LoadInitState(files), lr=0.001)
    # The other way out of the message.
    weights = Checkpoint(monitor=None, dirname=tmp_path, f_optimizer=None)
    net = run(clone(NET), 1, LoadInitState(weights), lr=0.001)
    assert net.optimizer_.param_groups[0]["lr"] == 0.001
    # A schedule changes it on purpose.
    halve = LRScheduler("StepLR", step_size=1, gamma=0.5)
    run(clone(NET), 2, files, halve)
    net = run(clone(NET), 1, LoadInitState(files), halve)
    assert net.optimizer_.param_groups[0]["lr"] < 0.01


def assert_same(net, whole):
    """In weights and in everything that is recorded, except for the time."""
    np.testing.assert_array_equal(net.predict_proba(X), whole.predict_proba(X))
    for row, expected in zip(net.history_, whole.history_, strict=True):
        named = [n for n in expected if not n.startswith(OF_ONE_RUN)]
        named = [n for n in named if not n.endswith("_best")]
        assert {"train_loss", "valid_log_loss", "valid_refinement"} <= {*named}
        assert [row[n] for n in named] == [expected[n] for n in named]


def test_partial_fit_of_a_loss_that_learns_points_to_warm_start():
    net = clone(NET).set_params(loss="adafocal", validation_fraction=None)
    net.set_params(max_epochs=2).fit(X, LABELS)
    with pytest.raises(ValueError, match=r"partial_fit holds out no data.*warm_start"):
        net.partial_fit(X, LABELS)
    # What the message says works, and holds out the same samples.
    n_valid = net.history_[-1, "bin_weight"]
    net.set_params(warm_start=True).fit(X, LABELS)
    assert len(net.history_) == 4
    assert sum(net.history_[-1, "bin_weight"]) == sum(n_valid) == 20


def test_without_validation_data_the_loss_names_what_holds_them_out():
    net = clone(NET).set_params(loss="adafocal", validation_fraction=None)
    with pytest.raises(ValueError, match=r"got none\. Hold out data with validation_f"):
        net.set_params(train_split=lambda dataset, _: (dataset, None)).fit(X, LABELS)
