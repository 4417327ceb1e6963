"""`loss` and `loss__...` as parameters."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_calib import NeuralClassifier
from sklearn_calib.losses import (
    FocalLoss,
    RegularizedAURCLoss,
    get_loss,
    get_loss_names,
)

X, y = make_classification(n_samples=120, random_state=0)


@pytest.mark.parametrize("loss", get_loss_names())
def test_deep_params_list_those_of_the_loss(loss):
    net = NeuralClassifier(loss=loss)
    own = get_loss(loss)().get_params()
    deep = {k: v for k, v in net.get_params().items() if k.startswith("loss__")}
    assert deep == {f"loss__{name}": value for name, value in own.items()}
    assert not any(name.startswith("loss__") for name in net.get_params(deep=False))


@pytest.mark.parametrize("loss", ["focal", FocalLoss, FocalLoss(gamma=5.0)])
def test_name_class_and_instance_mean_the_same(loss):
    net = NeuralClassifier(loss=loss, loss__gamma=1.5, max_epochs=1)
    for each in (net, clone(net), clone(net).fit(X, y)):
        assert each.get_params()["loss__gamma"] == 1.5
    assert clone(net).fit(X, y).criterion_.gamma == 1.5


def test_an_instance_shows_its_own_values_and_stays_untouched():
    loss = FocalLoss(gamma=5.0)
    net = NeuralClassifier(loss=loss, max_epochs=1)
    assert net.get_params()["loss__gamma"] == 5.0
    net.fit(X, y)
    assert net.criterion_ is not loss
    assert net.criterion_.gamma == 5.0


@pytest.mark.parametrize(
    "loss", [torch.nn.CrossEntropyLoss, torch.nn.MultiMarginLoss(p=2)]
)
def test_losses_of_torch_serve_too(loss):
    net = NeuralClassifier(loss=loss, max_epochs=2).fit(X, y)
    np.testing.assert_allclose(net.predict_proba(X).sum(axis=1), 1)


def test_class_of_torch_takes_its_parameters():
    net = NeuralClassifier(loss=torch.nn.CrossEntropyLoss, loss__label_smoothing=0.1)
    assert net.set_params(max_epochs=1).fit(X, y).criterion_.label_smoothing == 0.1


@pytest.mark.parametrize("loss", ["cross_entropy", torch.nn.MultiMarginLoss(p=2)])
def test_set_params_refuses_what_a_loss_lacks(loss):
    net = NeuralClassifier(loss=loss)
    with pytest.raises(ValueError, match=r"Loss .* has no parameter 'gamma'"):
        net.set_params(loss__gamma=2)
    assert "loss__gamma" not in net.get_params()


def test_a_refusal_changes_nothing():
    net = NeuralClassifier(loss="focal", loss__gamma=2.0)
    with pytest.raises(ValueError, match="'cross_entropy' has no parameter 'gamma'"):
        net.set_params(loss="cross_entropy", loss__gamma=1.0, lr=5.0)
    assert net.get_params()["loss__gamma"] == 2.0
    assert net.loss == "focal"
    assert net.lr == 1e-3


@pytest.mark.parametrize("order", [1, -1])
def test_a_new_loss_drops_earlier_values_in_any_order(order):
    net = NeuralClassifier(loss="focal", loss__gamma=7.0)
    new = {"loss": "dual_focal", "loss__gamma": 2.5}
    net.set_params(**dict(list(new.items())[::order]))
    assert net.get_params()["loss__gamma"] == 2.5
    net.set_params(loss="inverse_focal")
    assert net.get_params()["loss__gamma"] == get_loss("inverse_focal")().gamma
    net.set_params(loss="cross_entropy")
    assert "loss__gamma" not in net.get_params()


def test_the_same_loss_keeps_its_values():
    net = NeuralClassifier(loss="focal", loss__gamma=7.0).set_params(loss="focal")
    assert net.get_params()["loss__gamma"] == 7.0


def test_a_fitted_net_takes_a_new_loss_for_what_follows():
    net = NeuralClassifier(max_epochs=1, warm_start=True).fit(X, y)
    net.set_params(loss="focal", loss__gamma=2.5).fit(X, y)
    assert net.criterion_.gamma == 2.5
    assert len(net.history_) == 2


def test_search_over_a_list_of_grids():
    grids = [
        {"neuralclassifier__loss": ["cross_entropy", "brier"]},
        {
            "neuralclassifier__loss": ["focal", "inverse_focal"],
            "neuralclassifier__loss__gamma": [0.5, 2.0],
        },
        {
            "neuralclassifier__loss": ["focal_calibration"],
            "neuralclassifier__loss__lambd": [0.5, 1.0],
        },
    ]
    pipe = make_pipeline(
        StandardScaler(),
        NeuralClassifier(module__hidden_sizes=(8,), max_epochs=1, random_state=0),
    )
    search = GridSearchCV(pipe, grids, scoring="neg_ece", cv=2).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(search.cv_results_["params"]) == 8
    assert search.predict_proba(X).shape == (120, 2)


def test_a_product_grid_fails_at_once_and_names_both():
    grid = {"loss": ["cross_entropy", "focal"], "loss__gamma": [1.0, 2.0]}
    search = GridSearchCV(NeuralClassifier(max_epochs=1), grid, cv=2)
    with pytest.raises(ValueError, match="'cross_entropy' has no parameter 'gamma'"):
        search.fit(X, y)


def test_search_over_instances():
    grid = {"loss": [FocalLoss(gamma=1.0), FocalLoss(gamma=3.0), "cross_entropy"]}
    search = GridSearchCV(NeuralClassifier(max_epochs=1), grid, cv=2).fit(X, y)
    assert len(search.cv_results_["params"]) == 3


class WithRequired(torch.nn.CrossEntropyLoss):
    """A loss whose constructor needs an argument."""

    def __init__(self, alpha):
        super().__init__(label_smoothing=alpha)


def test_a_required_argument_of_a_loss_can_be_set():
    net = NeuralClassifier(loss=WithRequired, loss__alpha=0.2, max_epochs=1).fit(X, y)
    assert net.criterion_.label_smoothing == 0.2
    with pytest.raises(ValueError, match="WithRequired has no parameter 'beta'"):
        net.set_params(loss__beta=1)


@pytest.mark.parametrize("loss", ["regularized_aurc", RegularizedAURCLoss()])
def test_parameters_of_a_base(loss):
    net = NeuralClassifier(loss=loss, loss__base="focal", loss__base__gamma=2.0)
    assert net.get_params()["loss__base__gamma"] == 2.0
    assert "loss__base__gamma" in net.get_params(deep=False)
    net = clone(net).set_params(loss__base__gamma=1.0, max_epochs=1).fit(X, y)
    assert net.criterion_.get_params()["base__gamma"] == 1.0
    assert net.set_params(loss__base="focal").get_params()["loss__base__gamma"] == 1.0


def test_defaults_of_a_base_are_listed():
    net = NeuralClassifier(loss="aurc")
    assert net.get_params()["loss__base__label_smoothing"] == 0
    assert net.set_params(loss__base="focal").get_params()["loss__base__gamma"] == 3
    assert "loss__base__gamma" not in net.get_params(deep=False)


@pytest.mark.parametrize("order", [1, -1])
def test_a_new_base_drops_earlier_values_in_any_order(order):
    params = {
        "loss": "regularized_aurc",
        "loss__lambd": 0.3,
        "loss__base": "focal",
        "loss__base__gamma": 2.0,
    }
    net = NeuralClassifier().set_params(**dict(list(params.items())[::order]))
    assert {name: net.get_params()[name] for name in params} == params
    new = {"loss__base": "inverse_focal", "loss__base__gamma": 1.0}
    net.set_params(**dict(list(new.items())[::order]))
    assert net.get_params()["loss__base__gamma"] == 1.0
    net.set_params(loss__base="brier")
    assert "loss__base__gamma" not in net.get_params()
    assert net.get_params()["loss__lambd"] == 0.3
    net.set_params(loss="aurc")
    assert net.get_params()["loss__base"] == "cross_entropy"


def test_a_new_base_drops_the_values_of_an_instance():
    loss = RegularizedAURCLoss(base="focal", base__gamma=2.0)
    net = NeuralClassifier(loss=loss, max_epochs=1)
    assert net.get_params()["loss__base__gamma"] == 2.0
    net.set_params(loss__base="brier").fit(X, y)
    assert "loss__base__gamma" not in net.get_params()
    assert net.criterion_.base == "brier"


def test_what_a_base_lacks_is_refused():
    net = NeuralClassifier(loss="regularized_aurc", loss__base="focal")
    message = r"Loss 'brier' has no parameter 'gamma', got loss__base__gamma"
    with pytest.raises(ValueError, match=message):
        net.set_params(loss__base="brier", loss__base__gamma=2.0)
    assert net.loss__base == "focal"
    with pytest.raises(
        ValueError, match=r"got loss__base__gama\. Did you mean 'gamma'"
    ):
        net.set_params(loss__base__gama=2.0)
    with pytest.raises(ValueError, match="'focal' has no parameter 'base__gamma'"):
        NeuralClassifier(loss="focal", loss__base__gamma=2.0).fit(X, y)


def test_search_over_bases():
    grids = [
        {"loss__base": ["focal"], "loss__base__gamma": [0.5, 2.0]},
        {"loss__base": ["cross_entropy"], "loss__base__label_smoothing": [0.1]},
        {"loss__base": ["brier", FocalLoss(gamma=1.0)]},
    ]
    params = {"module__hidden_sizes": (8,), "max_epochs": 1, "random_state": 0}
    net = NeuralClassifier(loss="regularized_aurc", **params)
    search = GridSearchCV(net, grids, scoring="neg_ece", cv=2).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(search.cv_results_["params"]) == 5
