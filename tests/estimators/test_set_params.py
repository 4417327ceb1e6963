"""New parameters act in the next fit, and unknown names are rejected."""

import copy
from functools import cache

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch.callbacks import EarlyStopping, LRScheduler
from skorch.dataset import Dataset
from torch.utils.data import DataLoader

from sklearn_calib import (
    CalibratedClassifier,
    NeuralClassifier,
    PredictionSetClassifier,
    RefCalClassifier,
    SelectiveClassifier,
    TemperatureScaling,
)
from sklearn_calib.callbacks import UpdateLoss
from sklearn_calib.datasets import Mixup
from sklearn_calib.estimators import MLP
from sklearn_calib.losses import FocalLoss

X, y = make_classification(
    n_samples=150, n_informative=6, n_classes=3, flip_y=0.2, random_state=0
)
NET = NeuralClassifier(MLP, max_epochs=3, random_state=0)


class SmallMLP(MLP):
    """MLP with a small hidden layer."""

    def __init__(self, n_features, n_classes, hidden_sizes=(16,), dropout=0.0):
        super().__init__(n_features, n_classes, hidden_sizes, dropout)


SMALL = clone(NET).set_params(module=SmallMLP, max_epochs=2)
REFCAL = RefCalClassifier(
    n_projection=4, random_state=0, refine__max_epochs=1, head__max_epochs=1
)


class Tripled(Dataset):
    """Samples three times as large."""

    def __init__(self, X, y=None, length=None, factor=3):
        super().__init__(factor * X, y, length=length)


CHANGES = [
    {"module": torch.nn.Linear, "module__in_features": 20, "module__out_features": 3},
    {"module__hidden_sizes": (5,)},
    {"module__dropout": 0.5},
    {"optimizer": torch.optim.SGD},
    {"optimizer": torch.optim.SGD, "optimizer__momentum": 0.9},
    {"optimizer__lr": 0.1},
    {"optimizer__weight_decay": 0.5},
    {"optimizer__amsgrad": True},
    {"optimizer__param_groups": [("0*", {"lr": 0.3})]},
    {"optimizer__param_groups__0__lr": 0.2},
    {"lr": 0.1},
    {"lr": 0.1, "optimizer__lr": 0.2},
    {"loss": "focal"},
    {"loss": "focal", "loss__gamma": 1.5},
    {"loss__label_smoothing": 0.2},
    {"iterator_train__shuffle": False},
    {"iterator_train__drop_last": True},
    {"iterator_train__batch_size": 17},
    {"iterator_train": DataLoader},
    {"iterator_valid__batch_size": 7},
    {"dataset": Tripled, "dataset__factor": 2},
    {"callbacks": [("stop", EarlyStopping("train_loss", 1, 1e9, load_best=True))]},
    {"callbacks": [LRScheduler("StepLR", step_size=1)]},
    {"callbacks__update_loss__update_every": 1, "loss": "adafocal"},
    {"callbacks__update_loss": UpdateLoss(2), "loss": "adafocal"},
    {"callbacks": "disable"},
    {"early_stopping": True, "n_iter_no_change": 1, "lr": 0.3},
    {"validation_fraction": 0.3, "refit": True},
    {"batch_transform": Mixup()},
    {"batch_size": 20},
    {"max_epochs": 5},
    {"random_state": 1},
    {"dtype": "float64"},
    {"posterior": True, "loss": "focal"},
    {"compile__backend": "eager"},
]
IDS = [" ".join(change) for change in CHANGES]


@cache
def proba_and_epochs(number):
    """Return the result of a new net with the parameters of a change."""
    net = clone(SMALL).set_params(**CHANGES[number]).fit(X, y)
    return net.predict_proba(X), len(net.history_)


@cache
def plain_net():
    return clone(SMALL).fit(X, y)


@pytest.mark.parametrize("change", CHANGES, ids=IDS)
def test_what_is_set_after_a_fit_acts_in_the_next(change):
    """It acts as in a new net and in a clone."""
    expected, n_epochs = proba_and_epochs(CHANGES.index(change))
    net = copy.deepcopy(plain_net())
    before = net.predict_proba(X)
    net.set_params(**change)
    if not {"posterior", "dataset"} & {*change}:  # of predictions too
        np.testing.assert_allclose(net.predict_proba(X), before, rtol=1e-5)
    twin = clone(net)
    for again in (net.fit(X, y), twin.fit(X, y), net.fit(X, y)):
        np.testing.assert_array_equal(again.predict_proba(X), expected)
        assert len(again.history_) == n_epochs


def test_the_changes_above_are_seen():
    plain = plain_net().predict_proba(X)
    same = [
        name
        for number, name in enumerate(IDS)
        if (proba_and_epochs(number)[0] == plain).all()
    ]
    assert same == [
        "callbacks",
        "validation_fraction refit",
        "compile__backend",
    ]


ESTIMATORS = [
    NET,
    NeuralClassifier(),
    NeuralClassifier(max_epochs=1, verbose=1, early_stopping=True),
    NeuralClassifier(max_epochs=1, callbacks="disable"),
    NeuralClassifier(
        max_epochs=1,
        loss="focal",
        loss__gamma=2.0,
        optimizer__weight_decay=0.1,
        callbacks=[("stop", EarlyStopping("train_loss")), LRScheduler],
        callbacks__stop__patience=7,
        callbacks__update_loss__update_every=3,
        callbacks__valid_ece=None,
    ),
    NeuralClassifier(loss=FocalLoss(gamma=1.0), module=MLP(20, 3), max_epochs=1),
    REFCAL,
    clone(REFCAL).set_params(
        loss="adafocal", loss__n_bins=3, encoder__hidden_sizes=(4,)
    ),
    CalibratedClassifier(NET, TemperatureScaling(), cv=2),
    PredictionSetClassifier(NET, cv=2),
    SelectiveClassifier(NET, coverage=0.5, abstain_label=-1, cv=2),
    make_pipeline(StandardScaler(), NET),
    GridSearchCV(NET, {"lr": [0.1]}, cv=2),
]


@pytest.mark.parametrize("is_fitted", [False, True], ids=["new", "fitted"])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_setting_what_is_there_changes_nothing(estimator, is_fitted):
    estimator = clone(estimator)
    if isinstance(estimator, NeuralClassifier):
        estimator.set_params(max_epochs=1)
    if is_fitted:
        estimator.fit(X[:99], y[:99])
    shallow, deep = estimator.get_params(deep=False), estimator.get_params()
    attributes = {*vars(estimator)}
    assert estimator.set_params(**deep) is estimator
    assert same_params(estimator.get_params(deep=False), shallow)
    assert same_params(estimator.get_params(), deep)
    assert {*vars(estimator)} == attributes
    if is_fitted:
        estimator.predict(X)


def same_params(params, others):
    """Return whether parameters are the same, or rebuilt callbacks of the same type."""
    assert params.keys() == others.keys()
    return all(
        value is others[name] or type(value) is type(others[name]) is not float
        for name, value in params.items()
    )


def test_setting_what_is_there_pins_no_default():
    net = NeuralClassifier(early_stopping=True)
    net.set_params(**net.get_params()).set_params(n_iter_no_change=3)
    assert net.get_params()["callbacks__early_stopping__patience"] == 3


def test_parameters_of_callbacks_are_listed_when_they_are_set():
    stop = EarlyStopping(patience=4)
    net = NeuralClassifier(callbacks=[("stop", stop)])
    assert net.get_params()["callbacks__stop__patience"] == 4
    net.set_params(callbacks__stop__patience=9, callbacks__update_loss__update_every=2)
    assert net.get_params()["callbacks__stop__patience"] == 9
    assert net.get_params()["callbacks__update_loss__update_every"] == 2
    assert net.get_params(deep=False)["callbacks__stop__patience"] == 9
    net.set_params(callbacks__update_loss=UpdateLoss(5), callbacks__valid_ece=None)
    assert net.get_params()["callbacks__update_loss__update_every"] == 2
    assert net.get_params()["callbacks__valid_ece"] is None


# Going on from what is trained -------------------------------------------------------


def going_on(**change):
    """Return a net whose parameters change between two epochs."""
    net = clone(SMALL).partial_fit(X, y, classes=np.unique(y))
    return net.set_params(**change).partial_fit(X, y)


def test_values_of_the_optimizer_keep_its_state():
    """It keeps its moments, as with `LRScheduler`."""
    scheduled = clone(SMALL).set_params(
        max_epochs=2, callbacks=[LRScheduler("StepLR", step_size=1, gamma=0.5)]
    )
    expected = scheduled.fit(X, y).predict_proba(X)
    for change in (
        {"lr": 0.0005},
        {"optimizer__lr": 0.0005},
        {"optimizer__param_groups__0__lr": 0.0005},
    ):
        np.testing.assert_array_equal(going_on(**change).predict_proba(X), expected)


def halved(epoch):
    """Return a factor for the learning rate of an epoch."""
    return 0.5**epoch


def test_a_schedule_goes_on_from_a_rate_that_is_set():
    net = clone(SMALL).set_params(callbacks=[LRScheduler("LambdaLR", lr_lambda=halved)])
    net.partial_fit(X, y, classes=np.unique(y))
    assert net.set_params(lr=0.6).partial_fit(X, y).history_[-1, "event_lr"] == 0.3


def test_the_rate_of_the_optimizer_goes_before_the_other():
    net = clone(SMALL).set_params(optimizer__lr=0.1).fit(X, y).set_params(lr=0.5)
    assert net.optimizer_.param_groups[0]["lr"] == 0.1
    assert net.fit(X, y).optimizer_.param_groups[0]["lr"] == 0.1


@pytest.mark.parametrize(
    "change",
    [
        {"optimizer": torch.optim.SGD, "optimizer__momentum": 0.5},
        {"optimizer__amsgrad": True},
        {"optimizer__param_groups": [("0*", {"lr": 0.1})]},
        {"iterator_train__shuffle": False},
        {"loss": "focal"},
        {"module__hidden_sizes": (4,)},
        {"callbacks": [LRScheduler]},
        {"validation_fraction": 0.2, "refit": False},
    ],
    ids=" ".join,
)
def test_training_goes_on_with_other_parts(change):
    net = going_on(**change)
    assert len(net.history_) == 2
    assert np.isfinite(net.predict_proba(X)).all()
    assert not net._stale


def test_momentum_is_switched_on_in_the_middle():
    net = clone(SMALL).set_params(optimizer=torch.optim.RMSprop)
    net.partial_fit(X, y, classes=np.unique(y))
    net.set_params(optimizer__momentum=0.9).partial_fit(X, y)
    assert net.optimizer_.param_groups[0]["momentum"] == 0.9


@pytest.mark.filterwarnings("default")  # torch warns of itself while it compiles
def test_compiling_keeps_the_weights():
    batch = X[:99], y[:99]  # another size is compiled again
    linear = clone(SMALL).set_params(module__hidden_sizes=())
    net = clone(linear).partial_fit(*batch, classes=np.unique(y))
    expected = linear.set_params(max_epochs=2).fit(*batch).predict_proba(X[:99])
    net.set_params(compile=True, compile__backend="eager").partial_fit(*batch)
    # The loss is compiled too, from other operations, which round otherwise.
    np.testing.assert_allclose(net.predict_proba(X[:99]), expected, rtol=1e-6)
    net.set_params(compile=False).partial_fit(*batch)
    assert isinstance(net.module_, MLP)


def test_a_net_without_training_is_built_anew_at_once():
    net = NeuralClassifier(torch.nn.Linear, module__in_features=2)
    net.set_params(module__out_features=3).initialize()
    net.set_params(module__out_features=5)
    assert net.module_.out_features == 5


# What is refused ---------------------------------------------------------------------

REFUSED_WHEN_SET = {
    "lrr": r"Invalid parameter 'lrr' for .* Did you mean 'lr'\?",
    "optimzer__lr": r"Invalid parameter 'optimzer__lr' .* Did you mean 'optimizer__'\?",
    "lr__x": r"Invalid parameter 'lr__x' for estimator NeuralClassifier",
}
REFUSED_IN_FIT = {
    "module__hiden_sizes": r"MLP has no .* Did you mean 'hidden_sizes'\?",
    "optimizer__weight_decy": r"Adam has no .* Did you mean 'weight_decay'\?",
    "optimizer__param_groups__3__lr": "must name one of the 1 parameter groups",
    "optimizer__param_groups__0__ep": r"must name an option .* Did you mean 'eps'\?",
    "iterator_train__shufle": r"iterate_batches has no .* Did you mean 'shuffle'\?",
    "iterator_valid__num_worker": r"iterate_batches .* Did you mean 'num_workers'\?",
    "dataset__lenght": r"Dataset has no .* Did you mean 'length'\?",
    "compile__backnd": r"compile has no .* Did you mean 'backend'\?",
    "callbacks__update_los__update_every": r"callbacks__.* Did you mean 'update_loss'",
    "callbacks__update_loss__every": r"UpdateLoss has no parameter 'every', got callb",
}


@pytest.mark.parametrize("name", REFUSED_WHEN_SET)
@pytest.mark.parametrize("is_fitted", [False, True], ids=["new", "fitted"])
def test_an_unknown_name_is_refused_when_set(name, is_fitted):
    net = copy.deepcopy(plain_net()) if is_fitted else clone(SMALL)
    before = net.get_params(deep=False)
    with pytest.raises(ValueError, match=REFUSED_WHEN_SET[name]):
        net.set_params(**{"max_epochs": 9, "loss": "focal", name: 1})
    assert net.get_params(deep=False) == before


@pytest.mark.parametrize("name", REFUSED_IN_FIT)
@pytest.mark.parametrize("is_fitted", [False, True], ids=["new", "fitted"])
def test_an_unknown_name_is_refused_in_fit(name, is_fitted):
    net = copy.deepcopy(plain_net()) if is_fitted else clone(SMALL)
    with pytest.raises(ValueError, match=REFUSED_IN_FIT[name]):
        net.set_params(**{name: 1}).fit(X, y)


def test_a_value_that_the_optimizer_refuses():
    match = r"optimizer must be .* got optimizer__lr=-1: Invalid learning rate: -1\. Ch"
    with pytest.raises(ValueError, match=match):
        clone(SMALL).set_params(optimizer__lr=-1).fit(X, y)


def test_a_misspelt_prefix_of_the_constructor_is_refused():
    net = NeuralClassifier(optimzer__lr=0.1)
    with pytest.raises(TypeError, match=r"'optimzer__lr' .* mean 'optimizer__'"):
        net.fit(X, y)


def test_stages_of_refcal_name_themselves():
    for name, message in {
        "encoder__hiden": r"MLP has no parameter 'hiden', got encoder__hiden",
        "refine__optimizer__x": r"refine__\.\.\.: Adam has no parameter 'x'",
        "head__optimizer__x": r"head__\.\.\.: Adam has no parameter 'x'",
    }.items():
        with pytest.raises(ValueError, match=message):
            clone(REFCAL).set_params(**{name: 1}).fit(X, y)
    with pytest.raises(TypeError, match=r"head__\.\.\.: `callbacks` must hold"):
        clone(REFCAL).set_params(head__callbacks=[3]).fit(X, y)


@pytest.mark.parametrize(
    "callbacks", [[3], ["checkpoint"], [("a", 3)], [("a", "b", 3)]]
)
def test_what_is_no_callback_is_refused(callbacks):
    net = clone(SMALL).set_params(callbacks=callbacks)
    assert net.set_params(**net.get_params()).callbacks is callbacks
    with pytest.raises(TypeError, match=r"`callbacks` must hold .*, got"):
        net.fit(X, y)
    net.set_params(callbacks=None, callbacks__valid_ece=3)
    with pytest.raises(TypeError, match=r"must hold .* got \('valid_ece', 3\)"):
        net.fit(X, y)


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "", "meta", 3])
@pytest.mark.parametrize("estimator", [NET, REFCAL], ids=["net", "refcal"])
def test_a_device_that_is_not_there_is_refused(estimator, device):
    kind = TypeError if device == 3 else ValueError
    with pytest.raises(kind, match=rf"`device` must .* got {device!r}.* Write 'cpu'"):
        clone(estimator).set_params(device=device).fit(X, y)
