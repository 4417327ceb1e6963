"""The class posterior, recovered from a network trained with a loss."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from sklearn_calib import CalibratedClassifier, NeuralClassifier, TemperatureScaling

GENERATOR = np.random.default_rng(0)
LABELS = np.array(["ant", "bee", "cow"])


def draw(n_samples):
    """Return a table, the true posterior and labels drawn from it."""
    X = GENERATOR.normal(size=(n_samples, 2))
    scores = X @ [[1.5, -1.0, 0.0], [0.0, 1.0, -1.5]]
    posterior = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    codes = (posterior.cumsum(axis=1) < GENERATOR.random((n_samples, 1))).sum(axis=1)
    return X, posterior, LABELS[codes]


X, POSTERIOR, Y = draw(20_000)
NET = NeuralClassifier(
    loss="focal",
    loss__gamma=3.0,
    module__hidden_sizes=(32,),
    batch_size=1000,
    max_epochs=6,
    lr=0.02,
    posterior=True,
    random_state=0,
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "params",
    [
        {"loss": "focal"},
        {"loss": "focal_calibration", "loss__gamma": 3.0},
        {"loss": "inverse_focal", "loss__gamma": 1.0},
        {"loss": "brier"},
    ],
    ids=lambda params: params["loss"],
)
def test_the_true_posterior_is_recovered(params):
    net = clone(NET).set_params(**params).fit(X, Y)
    error = np.abs(net.predict_proba(X) - POSTERIOR).mean()
    assert error < 0.02
    if params["loss"] != "brier":
        said = net.set_params(posterior=False).predict_proba(X)
        assert np.abs(said - POSTERIOR).mean() > 2.5 * error


def test_predictions_stay_the_same():
    net = clone(NET).set_params(max_epochs=1).fit(X[:500], Y[:500])
    with_posterior = net.predict(X)
    labels = net.classes_[net.predict_proba(X).argmax(axis=1)]
    np.testing.assert_array_equal(with_posterior, labels)
    np.testing.assert_array_equal(net.set_params(posterior=False).predict(X), labels)


def test_calibrating_afterwards_takes_the_posterior():
    net = clone(NET).set_params(max_epochs=4)
    model = CalibratedClassifier(net, TemperatureScaling(), cv=2, n_repeats=1).fit(X, Y)
    temperatures = [c.calibrator.temperature_ for c in model.calibrated_classifiers_]
    np.testing.assert_allclose(temperatures, 1, atol=0.15)


def test_search_finds_it():
    net = clone(NET).set_params(max_epochs=3)
    grid = {"posterior": [False, True]}
    search = GridSearchCV(net, grid, scoring="neg_ece", cv=2).fit(X[:4000], Y[:4000])
    assert search.best_params_ == {"posterior": True}


@pytest.mark.parametrize("loss", ["dual_focal", "adafocal", "mdca"])
def test_a_loss_that_does_not_tell(loss):
    with pytest.raises(ValueError, match="posterior must be False for the loss"):
        clone(NET).set_params(loss=loss).fit(X[:100], Y[:100])


def test_asking_afterwards_a_loss_that_does_not_tell():
    net = clone(NET).set_params(loss="mmce", posterior=False, max_epochs=1)
    net.fit(X[:200], Y[:200]).set_params(posterior=True)
    with pytest.raises(ValueError, match="posterior must be False for the loss MMCE"):
        net.predict_proba(X)


def test_parameters_at_which_a_loss_does_not_tell():
    net = clone(NET).set_params(loss="cross_entropy", loss__label_smoothing=0.1)
    with pytest.raises(ValueError, match="label_smoothing must be 0"):
        net.fit(X[:100], Y[:100])


def test_other_classifiers_still_say_what_they_hold():
    assert NeuralClassifier().decision_function_is_logits
    assert not NET.decision_function_is_logits
    assert not hasattr(LogisticRegression(), "decision_function_is_logits")
