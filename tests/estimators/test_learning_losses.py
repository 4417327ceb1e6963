"""Losses that learn from the validation set, in the estimator."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch.callbacks import Checkpoint, LoadInitState

from sklearn_calib import CalibratedClassifier, NeuralClassifier, TemperatureScaling
from sklearn_calib.calibrators import (
    HistogramBinning,
    get_calibrator,
    get_calibrator_names,
)
from sklearn_calib.losses import get_loss, get_loss_names
from sklearn_calib.metrics import expected_calibration_error

X, y = make_classification(
    n_samples=200, n_informative=6, n_classes=3, flip_y=0.2, random_state=0
)
LABELS = np.array(["ant", "bee", "cow"])[y]
LEARNED = ["bin_edges", "bin_confidence", "bin_accuracy", "bin_weight"]
LOSSES = [name for name in get_loss_names() if get_loss(name)().learns_from_validation]
NET = NeuralClassifier(
    loss="adafocal",
    loss__n_bins=5,
    loss__lambd=1.0,
    module__hidden_sizes=(16,),
    module__dropout=0.3,
    max_epochs=8,
    batch_size=75,
    validation_fraction=0.25,
    random_state=3,
    # By "auto" a shorter training would not be the beginning of a longer one.
    callbacks__update_loss__update_every="epoch",
)

all_losses = pytest.mark.parametrize("loss", LOSSES)


@pytest.fixture(scope="module")
def whole_run():
    return clone(NET).fit(X, LABELS)


def test_the_family_is_here():
    assert {"ada_dual_focal", "adafocal", "calfocal"} <= set(LOSSES)


@all_losses
def test_history_is_a_data_frame(loss):
    net = clone(NET).set_params(loss=loss, loss__n_bins=5, max_epochs=2).fit(X, LABELS)
    frame = pd.DataFrame(list(net.history_)).set_index("epoch")[LEARNED]
    long = frame.drop(columns="bin_edges").explode(LEARNED[1:])
    assert long.shape == (10, 3)
    assert (long["bin_weight"] == 10).all()
    np.testing.assert_allclose(frame["bin_edges"].str[0].astype(float), 0)


def test_gamma_and_gap_are_recorded_and_obey_the_update(whole_run):
    """Algorithm 1 with lambd = 1, where no limit and no switch is near."""
    gamma = np.array(whole_run.history_[:, "gamma"])
    gap = np.array(whole_run.history_[:, "calibration_gap"])
    np.testing.assert_allclose(gamma[0], np.exp(gap[0]), rtol=1e-6)
    np.testing.assert_allclose(gamma[1], gamma[0] * np.exp(gap[1]), rtol=1e-6)
    np.testing.assert_allclose(gamma[-1], whole_run.criterion_.gamma, rtol=1e-6)


@pytest.mark.parametrize("update_every", ["epoch", 2, {1: "epoch", 6: 4}])
def test_a_killed_run_goes_on_as_if_it_had_not_been(update_every, tmp_path):
    net = clone(NET).set_params(callbacks__update_loss__update_every=update_every)
    checkpoint = Checkpoint(lambda net: len(net.history) == 7, dirname=tmp_path)
    whole = clone(net).set_params(callbacks=[checkpoint]).fit(X, LABELS)
    resumed = clone(net).set_params(
        max_epochs=1, callbacks=[LoadInitState(Checkpoint(dirname=tmp_path))]
    )
    resumed.fit(X, LABELS)
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))
    for name in ("gamma", "calibration_gap", *LEARNED, "valid_ece"):
        assert resumed.history_[:, name] == whole.history_[:, name]


@all_losses
def test_pickle_keeps_what_was_learned(loss):
    net = clone(NET).set_params(loss=loss, max_epochs=2).fit(X, LABELS)
    loaded = pickle.loads(pickle.dumps(net))
    logits, target = torch.randn(9, 3), torch.arange(9) % 3
    assert loaded.criterion_(logits, target) == net.criterion_(logits, target)


def test_a_training_of_few_epochs_updates_more_often_by_default():
    once = clone(NET).set_params(max_epochs=2, batch_size=40, refit=True)
    net = clone(once).set_params(callbacks__update_loss__update_every="auto")
    net.fit(X, LABELS)
    once.fit(X, LABELS)
    changes = [
        np.abs(np.log(np.abs(each.validation_history_[0, "gamma"]))).max()
        for each in (once, net)
    ]
    # Four updates in the first epoch: 150 samples for training, 50 for validation.
    assert changes[1] > 2 * changes[0]


def test_a_new_fit_learns_anew(whole_run):
    again = clone(NET).set_params(max_epochs=2).fit(X, LABELS).fit(X, LABELS)
    assert again.history_[:, "gamma"] == whole_run.history_[:2, "gamma"]


def test_search():
    grid = {
        "loss__lambd": [1.0, 3.0],
        "loss__switch": [0.2],
        "loss__gamma_max": [20.0, np.inf],
        "loss__n_bins": [5],
    }
    net = clone(NET).set_params(max_epochs=1)
    search = GridSearchCV(net, grid, scoring="neg_ece", cv=2).fit(X, LABELS)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


CALIBRATORS = {name: get_calibrator(name)() for name in get_calibrator_names()}
CALIBRATORS["auto"].set_params(
    calibrators=[TemperatureScaling(), HistogramBinning()], cv=2
)


@pytest.mark.parametrize("calibrator", CALIBRATORS)
def test_calibrated_afterwards(calibrator, memory):
    # Linear and trained by SGD, it is read quickly from the cache.
    net = clone(NET).set_params(module__hidden_sizes=(), optimizer=torch.optim.SGD)
    net = make_pipeline(StandardScaler(), net.set_params(max_epochs=2, lr=1.0))
    params = {"cv": 2, "n_repeats": 1, "memory": memory}
    model = CalibratedClassifier(net, CALIBRATORS[calibrator], **params)
    model.fit(X[:100], LABELS[:100])
    np.testing.assert_allclose(model.predict_proba(X[:100]).sum(axis=1), 1)


def test_refit_trains_on_all_data_with_the_gammas_found(whole_run):
    net = clone(NET).set_params(refit=True).fit(X, LABELS)
    assert net.validation_history_[:, "gamma"] == whole_run.history_[:, "gamma"]
    assert sum(net.history_[-1, "batches", :, "train_batch_size"]) == len(X)
    last = whole_run.history_[-2, "gamma"]  # the last epoch trained with these
    np.testing.assert_allclose(net.criterion_.gamma, last, rtol=1e-6)


@all_losses
def test_few_validation_samples_make_fewer_bins(loss):
    """Twelve samples for fifteen bins, and a class without samples."""
    net = NeuralClassifier(
        loss=loss,
        loss__n_bins=15,
        max_epochs=2,
        train_split=_hold_out_twelve,
        random_state=0,
    )
    with pytest.warns(UserWarning, match="12 of 15"):
        net.fit(X, LABELS)
    assert (np.array(net.history_[-1, "bin_weight"]) > 0).all()
    assert np.isfinite(net.predict_proba(X)).all()


def _hold_out_twelve(dataset, codes):
    rows = np.arange(len(codes))
    valid = rows[codes < 2][:12]
    train = np.setdiff1d(rows, valid)
    return tuple(torch.utils.data.Subset(dataset, part) for part in (train, valid))


class Constant(torch.nn.Module):
    """Network with the same logits for all samples."""

    def __init__(self):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(3))

    def forward(self, X):
        return self.bias.expand(len(X), 3)


@all_losses
def test_tied_confidences_make_one_bin(loss):
    net = NeuralClassifier(
        loss=loss, loss__n_bins=15, module=Constant, max_epochs=2, random_state=0
    )
    with pytest.warns(UserWarning, match="1 of 15"):
        net.fit(X, LABELS)
    assert net.history_[-1, "bin_weight"] == [20.0]


def test_weights_reach_the_update():
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    net = clone(NET).set_params(max_epochs=1).fit(X, LABELS, sample_weight=weight)
    total = np.sum(net.history_[-1, "bin_weight"])
    assert total == pytest.approx(weight.sum() / 4, rel=0.1)
    assert total != 50


def test_the_log_prints_numbers_only(capsys):
    clone(NET).set_params(max_epochs=1, verbose=1).fit(X, LABELS)
    header, _, row = capsys.readouterr().out.splitlines()
    assert header.split()[:2] == ["epoch", "train_loss"]
    assert "gamma" not in header
    assert len(header.split()) == len(row.split())


def test_no_validation_data():
    with pytest.raises(ValueError, match="AdaFocalLoss must have validation data"):
        clone(NET).partial_fit(X, LABELS, classes=np.unique(LABELS))


def test_a_small_validation_set_is_enough_for_adafocal():
    """A network that memorises noisy labels; the validation set has 200 samples."""
    data, target = make_classification(
        n_samples=1800,
        n_informative=6,
        n_classes=3,
        flip_y=0.3,
        random_state=0,
    )
    net = NeuralClassifier(
        validation_fraction=0.25,
        max_epochs=20,
        batch_size=200,
        lr=0.02,
        random_state=0,
    )
    errors = []
    for loss in ("cross_entropy", "adafocal"):
        net.set_params(loss=loss).fit(data[:800], target[:800])
        proba = net.predict_proba(data[800:])
        errors.append(expected_calibration_error(target[800:], proba))
    assert errors[0] > 0.3  # 0.36
    assert errors[1] < 0.3 * errors[0]  # 0.05; 0.25 with the authors' settings
