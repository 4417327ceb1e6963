"""A fit that fails changes nothing: neither the estimator nor torch."""

import copy
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from skorch.callbacks import Callback
from skorch.dataset import ValidSplit

from sklearn_calib import NeuralClassifier, RefCalClassifier
from sklearn_calib.estimators import MLP

X, y = make_classification(n_samples=120, n_informative=6, n_classes=3, random_state=0)
FRAME = pd.DataFrame(X, columns=[f"x{i}" for i in range(20)])
OTHER = FRAME.iloc[:, :7].rename(columns=lambda name: f"{name}_other")
LABELS = np.array(["a", "b", "c"])[y]


class Broken(MLP):
    """Network that fails at its second batch."""

    def forward(self, X):
        self.n_batches = getattr(self, "n_batches", 0) + 1
        if self.n_batches == 2:
            raise RuntimeError("broken")
        return super().forward(X)


ESTIMATORS = [
    NeuralClassifier(max_epochs=2, random_state=0),
    RefCalClassifier(
        n_projection=4, random_state=0, refine__max_epochs=1, head__max_epochs=2
    ),
]
BROKEN = {"NeuralClassifier": "module", "RefCalClassifier": "encoder"}


def failures(estimator):
    """Return parameters, data and the error of fits that fail, early and late."""
    lr = {"NeuralClassifier": "lr", "RefCalClassifier": "head__lr"}
    lr, module = lr[type(estimator).__name__], BROKEN[type(estimator).__name__]
    nan = OTHER.replace(OTHER.iloc[3, 3], np.nan)
    return {
        "NaN": ({}, (nan, LABELS), ValueError),
        "one class": ({}, (OTHER, np.full(120, "d")), ValueError),
        "short y": ({}, (OTHER, LABELS[:5]), ValueError),
        "weights": ({}, (OTHER, LABELS, -np.ones(120)), ValueError),
        "weights of one class": ({}, (OTHER, LABELS, LABELS == "a"), ValueError),
        "rate": ({lr: -1}, (OTHER, LABELS), ValueError),
        "device": ({"device": "gpu"}, (OTHER, LABELS), ValueError),
        "weights for a loss without them": (
            {"loss": torch.nn.CrossEntropyLoss},
            (OTHER, LABELS, y + 1.0),
            TypeError,
        ),
        "module": ({module: 3}, (OTHER, LABELS), (TypeError, ValueError)),
        "option": ({f"{module}__dropuot": 3}, (OTHER, LABELS), ValueError),
        "late": ({module: Broken}, (OTHER, LABELS), RuntimeError),
    }


def state_of(estimator):
    """Return the fitted attributes and the predictions."""
    known = {name: getattr(estimator, name) for name in ("classes_", "n_features_in_")}
    return {
        **known,
        "feature_names_in_": list(estimator.feature_names_in_),
        "attributes": {name for name in vars(estimator) if name[-1] == "_"},
        "proba": estimator.predict_proba(FRAME).tolist(),
        "history": len(estimator.history_),
    }


@cache
def fitted(estimator):
    return clone(estimator).fit(FRAME, y)


@pytest.mark.parametrize("failure", failures(ESTIMATORS[0]))
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_a_fitted_estimator_stays_as_it_was(estimator, failure):
    estimator = copy.deepcopy(fitted(estimator))
    before = state_of(estimator)
    params, data, error = failures(estimator)[failure]
    with pytest.raises(error):
        estimator.set_params(**params).fit(*data)
    after = state_of(estimator.set_params(device="cpu"))
    assert after.pop("classes_").tolist() == before.pop("classes_").tolist()
    assert after == before


@pytest.mark.parametrize("failure", failures(ESTIMATORS[0]))
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_a_new_estimator_stays_unfitted(estimator, failure):
    estimator = clone(estimator)
    params, data, error = failures(estimator)[failure]
    with pytest.raises(error):
        estimator.set_params(**params).fit(*data)
    assert not [name for name in vars(estimator) if name[-1] == "_"]
    with pytest.raises(NotFittedError):
        estimator.predict(FRAME)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_a_refused_part_leaves_partial_fit_as_it_was(estimator):
    estimator = clone(estimator).partial_fit(FRAME, y, classes=[0, 1, 2])
    before = state_of(estimator)
    for data in [(OTHER, y), (FRAME, LABELS), (FRAME, y, None, -np.ones(120))]:
        with pytest.raises(ValueError, match=r"must|should"):
            estimator.partial_fit(*data)
    after = state_of(estimator)
    assert after.pop("classes_").tolist() == before.pop("classes_").tolist()
    assert after == before


class Fail(Callback):
    """Fail in the second epoch, in one way or another."""

    def __init__(self, error):
        self.error = error

    def on_epoch_end(self, net, **kwargs):
        if len(net.history) == 2:
            raise self.error


def global_state():
    """Return torch's global state."""
    return (
        torch.get_rng_state().tolist(),
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cudnn.deterministic,
        torch.is_grad_enabled(),
    )


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError, None])
@pytest.mark.parametrize("params", [{}, {"early_stopping": True}, {"loss": "adafocal"}])
@pytest.mark.filterwarnings("ignore:n_bins must be small enough:UserWarning")
def test_the_state_of_torch_is_left_alone(error, params):
    callbacks = [] if error is None else [Fail(error)]
    net = NeuralClassifier(
        max_epochs=2, random_state=0, dtype="float64", callbacks=callbacks, **params
    )
    before = global_state()
    if error is None:
        net.fit(X, y)
    else:
        with pytest.raises(error):
            net.fit(X, y)
    assert global_state() == before


# Keywords of fit ---------------------------------------------------------------------


class Scaled(MLP):
    """A network whose forward takes a keyword."""

    def forward(self, X, scale=1.0):
        return scale * super().forward(X)


def test_keywords_reach_the_module():
    net = NeuralClassifier(Scaled, max_epochs=2, random_state=0, refit=True)
    net.set_params(validation_fraction=0.2)
    plain = net.fit(X, y).predict_proba(X)
    assert np.abs(net.fit(X, y, scale=2.0).predict_proba(X) - plain).max() > 1e-4
    net.partial_fit(X, y, scale=2.0)
    assert len(net.fit(X, y, epochs=1).history_) == 1


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_an_unknown_keyword_is_refused(method):
    net = NeuralClassifier(max_epochs=1).fit(X, y)
    before = net.predict_proba(X)
    with pytest.raises(
        TypeError,
        match=r"keyword 'smaple_weight', which the forward o.*"
        r" MLP does not take\. Did you mean 'sample_weight'\?",
    ):
        getattr(net, method)(X, y, smaple_weight=y)
    np.testing.assert_array_equal(net.predict_proba(X), before)
    net = NeuralClassifier(Scaled, max_epochs=1, train_split=ValidSplit(3))
    with pytest.raises(TypeError, match="keyword 'scale', which train_split does not"):
        net.fit(X, y, scale=2.0)
