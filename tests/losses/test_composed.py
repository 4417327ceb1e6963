"""Properties that every loss with a base has."""

import copy
import inspect
import pickle

import pytest
import torch
from sklearn.base import clone

from sklearn_calib import losses
from sklearn_calib.losses import (
    CalibrationLoss,
    FocalLoss,
    focal_loss,
    get_loss,
    get_loss_names,
)

NAMES = [
    name
    for name in get_loss_names()
    if "base" in inspect.signature(get_loss(name)).parameters
]
COPIERS = {
    "clone": clone,
    "deepcopy": copy.deepcopy,
    "pickle": lambda loss: pickle.loads(pickle.dumps(loss)),
    "repr": lambda loss: eval(
        repr(loss), {n: getattr(losses, n) for n in losses.__all__}
    ),
}
LOGITS = torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 0.5]])
TARGET = torch.tensor([0, 2])

all_composed = pytest.mark.parametrize("name", NAMES)


class Learner(CalibrationLoss):
    """A per-sample loss that learns a factor."""

    learns_from_validation = True

    def __init__(self, *, gamma=1.0, reduction="mean"):
        super().__init__(reduction=reduction)
        self.gamma = gamma
        self.register_buffer("factor", torch.tensor(1.0))

    def forward(self, logits, target):
        values = focal_loss(logits, target, gamma=self.gamma, reduction=self.reduction)
        return self.factor * values

    def update(self, *_, sample_weight=None):  # noqa: ARG002
        self.factor += 1
        return {"factor": [self.factor.item()]}


def test_aurc_losses_are_tested():
    assert {"aurc", "regularized_aurc"} <= set(NAMES)


@all_composed
@pytest.mark.parametrize("order", [1, -1])
def test_a_name_with_parameters_is_an_instance(name, order):
    params = dict([("base", "focal"), ("base__gamma", 5.0)][::order])
    loss = get_loss(name)(**params)
    expected = get_loss(name)(base=FocalLoss(gamma=5.0, reduction="sum"))
    assert torch.equal(loss(LOGITS, TARGET), expected(LOGITS, TARGET))
    assert not torch.equal(loss(LOGITS, TARGET), get_loss(name)()(LOGITS, TARGET))
    function = getattr(losses, f"{name}_loss")
    assert torch.equal(function(LOGITS, TARGET, **params), loss(LOGITS, TARGET))


@all_composed
def test_deep_params_list_those_of_the_base(name):
    loss = get_loss(name)
    assert "base__gamma" not in loss(base="focal").get_params(deep=False)
    assert loss(base="focal").get_params()["base__gamma"] == 3.0
    assert loss(base=FocalLoss(gamma=2.0)).get_params()["base__gamma"] == 2.0
    given = loss(base="focal", base__gamma=1.0)
    assert given.get_params(deep=False)["base__gamma"] == 1.0
    assert not {"base__reduction", "base__ignore_index"} & given.get_params().keys()


@all_composed
@pytest.mark.parametrize("copier", COPIERS.values())
@pytest.mark.parametrize("base", ["focal", FocalLoss(gamma=2.0)])
def test_copies_keep_the_parameters_of_the_base(name, copier, base):
    loss = get_loss(name)(base=base, base__gamma=5.0)
    twin = copier(loss)
    assert repr(twin) == repr(loss)
    assert twin.get_params()["base__gamma"] == 5.0
    assert torch.equal(twin(LOGITS, TARGET), loss(LOGITS, TARGET))


@all_composed
@pytest.mark.parametrize("copier", COPIERS.values())
def test_a_given_instance_is_not_modified(name, copier):
    base = FocalLoss(gamma=2.0, reduction="sum")
    twin = copier(get_loss(name)(base=base, base__gamma=5.0))
    given = "FocalLoss(gamma=2.0, ignore_index=-100, reduction='sum')"
    assert repr(base) == repr(twin.base) == given


@all_composed
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_a_base_ignores_no_samples(name, reduction):
    """The parameter of the loss applies, as its reduction does."""
    logits, target = torch.eye(3), torch.tensor([0, 1, 1])
    given = FocalLoss(ignore_index=1, reduction=reduction)
    value = get_loss(name)(base=given)(logits, target)
    assert torch.equal(value, get_loss(name)(base=FocalLoss())(logits, target))


@all_composed
def test_the_state_of_the_base_is_that_of_the_loss(name):
    base = Learner()
    base.update([], [])
    loss = get_loss(name)(base=base)
    function = getattr(losses, f"{name}_loss")
    expected = function(LOGITS, TARGET, base=base)
    assert torch.equal(loss.eval()(LOGITS, TARGET), expected)
    assert "base_.factor" in loss.state_dict()

    assert loss.update([], [[]]) == {"factor": [3.0]}
    assert base.factor == 2
    base.update([], [])
    assert torch.equal(loss(LOGITS, TARGET), function(LOGITS, TARGET, base=base))
    assert not get_loss(name)().learns_from_validation

    base.update([], [])
    expected = function(LOGITS, TARGET, base=base)
    fresh = get_loss(name)(base=Learner())
    fresh.load_state_dict(loss.state_dict())
    for twin in (fresh, copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        assert twin.update([], []) == {"factor": [4.0]}
        assert torch.equal(twin.eval()(LOGITS, TARGET), expected)
    assert loss.double().base_.factor.dtype == torch.float64


@all_composed
@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        (
            {"base": "focal", "base__gama": 1},
            ValueError,
            "Loss 'focal' has no parameter 'gama', got base__gama. Did you mean 'gam",
        ),
        (
            {"base__gamma": 1},
            ValueError,
            r"Loss 'cross_entropy' .* got base__gamma. Valid .*: \['label_smoothing'\]",
        ),
        (
            {"base": FocalLoss(), "base__gama": 1},
            ValueError,
            "Loss FocalLoss has no parameter 'gama'",
        ),
        (
            {"base": "focal", "base__reduction": "sum"},
            ValueError,
            "Loss 'focal' has no parameter 'reduction', got base__reduction",
        ),
        (
            {"base": "focal", "base__ignore_index": 0},
            ValueError,
            "Loss 'focal' has no parameter 'ignore_index', got base__ignore_index",
        ),
        (
            {"base": "focal", "base__gamma": -1},
            ValueError,
            "gamma must be finite and >= 0, got -1",
        ),
        (
            {"reductoin": "msp"},
            TypeError,
            "(?i)loss got an unexpected .* 'reductoin'. Did you mean 'reduction'",
        ),
        ({"gamma": 1}, TypeError, "Parameters of the base start with base__"),
        ({"base": "focl"}, ValueError, "got 'focl'. Did you mean 'focal'"),
        ({"base": FocalLoss}, ValueError, "base must be the name or an instance"),
        ({"base": torch.nn.CrossEntropyLoss()}, ValueError, "base must be the name"),
        ({"base": "aurc"}, ValueError, "base must be .* got 'aurc'. Choose a loss"),
        ({"base": losses.AURCLoss()}, ValueError, r"base must be .* got AURCLoss\("),
    ],
)
def test_bad_base(name, params, error, message):
    with pytest.raises(error, match=message):
        get_loss(name)(**params)
    with pytest.raises(error, match=message):
        getattr(losses, f"{name}_loss")(LOGITS, TARGET, **params)
