"""Unknown parameters are refused before data are touched, with hints."""

import numpy as np
import pytest
import torch
from skorch.callbacks import EarlyStopping

from sklearn_calib import NeuralClassifier, RefCalClassifier
from sklearn_calib.estimators import MLP
from sklearn_calib.estimators._neural.params import (
    SYNONYMS,
    find_near,
)

HINTS = {
    "augment": r"Did you mean 'batch_transform'\?",
    "learning_rate": r"Did you mean 'lr'\?",
    "gamma": r"Did you mean 'loss__gamma'\?",
    "hidden": r"Did you mean 'module__hidden_sizes'\?",
    "validation_data": r"Did you mean 'train_split'\?",
    "epochs": r"Did you mean 'max_epochs'\?",
    "class_weights": r"Did you mean 'class_weight'\?",
    "weight_decay": r"Did you mean 'optimizer__weight_decay'\?",
    "num_workers": r"Did you mean 'iterator_train__num_workers'\?",
    "loss_gamma": r"Did you mean 'loss__gamma', '\w+' or '\w+'\?",
    "model__hidden": r"Did you mean 'module__'\?",
    "module__hidden": r"Did you mean 'hidden_sizes'\?",
    "optimizer__learning_rate": r"Adam has no .* Did you mean 'lr'\?",
    "xyzzy": "The documentation of NeuralClassifier lists the parameters",
}


class Unread:
    """Data that raise an error if they are read."""

    def __array__(self, *args, **kwargs):
        raise AssertionError("the data were read")


@pytest.mark.parametrize("name", HINTS)
def test_unknown_parameters_are_refused_before_the_data(name):
    ways = [
        lambda: NeuralClassifier(**{name: 1}).fit(Unread(), Unread()),
        lambda: NeuralClassifier(**{name: 1}).initialize(),
        lambda: NeuralClassifier().set_params(**{name: 1}),
    ]
    for way in ways:
        with pytest.raises((TypeError, ValueError), match=HINTS[name]):
            way()


@pytest.mark.parametrize("name", ["loss__gama", "module__zz", "callbacks__zz"])
def test_unknown_parameters_of_parts_are_refused_before_the_data(name):
    for way in (
        lambda: NeuralClassifier(**{name: 1}).fit(Unread(), Unread()),
        lambda: NeuralClassifier(**{name: 1}).initialize(),
        lambda: NeuralClassifier().set_params(**{name: 1}),
    ):
        with pytest.raises(ValueError, match=name):
            way()


REFCAL_HINTS = {
    "learning_rate": "Did you mean 'head__lr' or 'refine__lr'",
    "gamma": "Did you mean 'loss__gamma'",
    "hidden": "Did you mean 'encoder__hidden_sizes'",
    "encoder__hidden": "Did you mean 'hidden_sizes'",
    "head__learning_rate": "Did you mean 'lr'",
}


@pytest.mark.parametrize("name", REFCAL_HINTS)
def test_unknown_parameters_of_two_stages(name):
    for way in (
        lambda: RefCalClassifier(**{name: 1}).fit(Unread(), Unread()),
        lambda: RefCalClassifier().set_params(**{name: 1}),
    ):
        with pytest.raises((TypeError, ValueError), match=REFCAL_HINTS[name]):
            way()


def test_names_of_other_parts_follow_a_change_of_the_part():
    net = NeuralClassifier(MLP)
    net.set_params(module=torch.nn.Linear, module__in_features=2)
    with pytest.raises(ValueError, match="SGD has no parameter 'amsgrad'"):
        net.set_params(optimizer=torch.optim.SGD, optimizer__amsgrad=True)
    assert net.optimizer is torch.optim.Adam


def test_names_of_callbacks_that_are_disabled_or_given_too():
    net = NeuralClassifier(callbacks="disable")
    net.set_params(callbacks__valid_ece=None, n_iter_no_change=3)
    stop = [("stop", EarlyStopping())]
    net.set_params(callbacks=stop, callbacks__stop__patience=3)
    assert net.callbacks__stop__patience == 3


def test_a_parameter_that_is_passed_to_fit():
    X, y = np.zeros((4, 2)), np.arange(4) % 2
    for name, own in {
        "test_size": "validation_fraction",
        "epoch": "max_epochs",
        "class_weight": "class_weight",
    }.items():
        with pytest.raises(TypeError, match=f"Set the parameter '{own}' of Neural"):
            NeuralClassifier().fit(X, y, **{name: (X, y)})


def test_synonyms_are_names_that_are_not_parameters():
    """A synonym leads to a parameter of the net or of a component."""
    params = NeuralClassifier(module=MLP).get_params(deep=False)
    assert not SYNONYMS.keys() & params.keys()
    others = {"hidden_sizes", "label_smoothing", "weight_decay"}
    assert {*SYNONYMS.values()} <= {*params, *others}


def test_at_most_three_names():
    known = [f"parameter_{i}" for i in range(9)]
    assert len(find_near("parameter", known)) == 3
    assert len(find_near("x", [f"{each}__x" for each in known])) == 3


@pytest.mark.parametrize("name", ["lr_", "module_", "__"])
def test_fitted_attributes_are_not_parameters(name):
    with pytest.raises(TypeError, match=f"'{name}' is not a parameter"):
        NeuralClassifier(**{name: 1})


@pytest.mark.parametrize("name", ["validation_data", "eval_set"])
def test_a_validation_set_under_another_name(name):
    net, data = NeuralClassifier(max_epochs=1), (np.eye(4), [0, 1, 0, 1])
    with pytest.raises(TypeError, match=r"^partial_fit .* Did you mean 'validation'\?"):
        net.partial_fit(*data, classes=[0, 1], **{name: data})
    with pytest.raises(TypeError, match=r"^fit .* Did you mean 'X_val' or 'y_val'\?"):
        net.fit(*data, **{name: data})
