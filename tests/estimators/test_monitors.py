"""What early stopping and checkpoints monitor."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning
from skorch.callbacks import Callback, Checkpoint, EarlyStopping, EpochScoring

from sklearn_calib import NeuralClassifier

X, y = make_classification(
    n_samples=300,
    n_features=10,
    n_informative=5,
    n_classes=3,
    flip_y=0.2,
    random_state=0,
)
SEEDED = {"max_epochs": 3, "validation_fraction": 0.3, "random_state": 0}


def warnings_of(*callbacks, **params):
    """Return the warnings of a fit about the monitors of its callbacks."""
    params = {**SEEDED, "max_epochs": 2, "module__hidden_sizes": (8,), **params}
    net = NeuralClassifier(callbacks=[*callbacks], **params)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        net.fit(X, y)
    return [str(w.message) for w in caught if "should not monitor" in str(w.message)]


def test_early_stopping_on_the_calibration_error_warns():
    (told,) = warnings_of(("stop", EarlyStopping("valid_ece")))
    assert told.startswith("'stop' in callbacks should not monitor 'valid_ece'")
    assert "Monitor 'valid_log_loss', or 'valid_refinement' if" in told
    assert (
        len(warnings_of(EarlyStopping, callbacks__EarlyStopping__monitor="valid_ece"))
        == 1
    )


@pytest.mark.parametrize("scoring", ["neg_ece", "neg_smooth_ece", "neg_mce"])
def test_other_names_of_the_calibration_error_warn(scoring):
    score = EpochScoring(scoring, lower_is_better=False, name=scoring)
    assert len(warnings_of(score, EarlyStopping(scoring, lower_is_better=False))) == 1


def test_a_checkpoint_of_the_lowest_calibration_error_warns(tmp_path):
    assert len(warnings_of(Checkpoint("valid_ece_best", dirname=tmp_path))) == 1


def test_other_monitors_do_not_warn(tmp_path):
    class Watch(Callback):
        monitor = "valid_ece"

    def recent(net, *args):
        return len(net.history)

    quiet = [
        EarlyStopping("valid_refinement"),
        ("again", EarlyStopping("valid_log_loss")),
        EpochScoring(recent, name="recent"),
        ("recently", EarlyStopping("recent")),
        Checkpoint("valid_loss_best", dirname=tmp_path),
        ("always", Checkpoint(None, dirname=tmp_path)),
        ("when", Checkpoint(lambda net: len(net.history) == 2, dirname=tmp_path)),
        Watch(),
    ]
    assert warnings_of(*quiet) == []


def test_the_warning_is_worth_following():
    """The first epoch has the lowest calibration error of all that are tried."""
    digits, label = (part[:400] for part in load_digits(return_X_y=True))
    params = {**SEEDED, "max_epochs": 17, "lr": 0.005, "module__hidden_sizes": (64,)}
    params["batch_size"] = -1
    scores = {}
    for monitor in ("valid_ece", "valid_refinement"):
        stop = EarlyStopping(monitor, load_best=True, sink=lambda _: None)
        net = NeuralClassifier(callbacks=[("stop", stop)], **params)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "'stop' in callbacks should not monitor")
            scores[monitor] = net.fit(digits / 16, label).score(digits / 16, label)
    assert scores["valid_ece"] < 0.4
    assert scores["valid_refinement"] > 0.8


def test_early_stopping_on_refinement():
    params = {**SEEDED, "max_epochs": 200, "lr": 0.08, "n_iter_no_change": 3}
    params["module__hidden_sizes"] = (16,)
    net = NeuralClassifier(early_stopping="valid_refinement", **params).fit(X, y)
    errors = net.history_[:, "valid_refinement"]
    assert len(errors) - 1 - np.argmin(errors) == 3
    by_log_loss = NeuralClassifier(early_stopping=True, **params).fit(X, y)
    assert len(errors) != len(by_log_loss.history_)
    # The same monitor in skorch's callback.
    stop = EarlyStopping("valid_refinement", patience=3, load_best=True)
    same = NeuralClassifier(callbacks=[stop], **params).fit(X, y)
    np.testing.assert_array_equal(net.predict_proba(X), same.predict_proba(X))
    named = NeuralClassifier(early_stopping="valid_log_loss", **params).fit(X, y)
    np.testing.assert_array_equal(named.predict_proba(X), by_log_loss.predict_proba(X))


def test_refit_after_early_stopping_on_refinement():
    net = NeuralClassifier(
        early_stopping="valid_refinement", n_iter_no_change=2, refit=True, lr=0.05
    )
    net.set_params(max_epochs=100, random_state=0).fit(X, y)
    errors = net.validation_history_[:, "valid_refinement"]
    assert len(net.history_) == 1 + np.argmin(errors) < 100


@pytest.mark.parametrize("word", ["valid_ece", "refinement", 1, None])
def test_other_scores_are_refused(word):
    with pytest.raises(ValueError, match=r"'early_stopping' .*'valid_refinement'"):
        NeuralClassifier(early_stopping=word, **SEEDED).fit(X, y)


def test_partial_fit_names_the_score():
    net = NeuralClassifier(early_stopping="valid_refinement")
    with pytest.raises(ValueError, match=r"must be False .* got 'valid_refinement'"):
        net.partial_fit(X, y, classes=[0, 1, 2])


def test_a_diverged_network_has_no_refinement():
    net = NeuralClassifier(lr=1e30, early_stopping="valid_refinement", refit=True)
    with pytest.warns(ConvergenceWarning) as warned:
        net.set_params(max_epochs=2, random_state=0).fit(X, y)
    assert "valid_refinement was not finite in any" in str(warned[-1].message)
    assert np.isnan(net.history_[:, "valid_refinement"]).all()


@pytest.mark.parametrize(("dtype", "scale"), [("float32", 1e30), ("float64", 1e300)])
def test_refinement_of_huge_logits_is_finite(dtype, scale):
    module = torch.nn.Linear(10, 3).to(getattr(torch, dtype))
    torch.nn.init.normal_(
        module.weight, std=scale, generator=torch.Generator().manual_seed(0)
    )
    net = NeuralClassifier(module, lr=1e-9, dtype=dtype, **SEEDED).fit(X, y)
    assert np.isfinite(net.history_[:, "valid_refinement"]).all()
