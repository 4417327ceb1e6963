"""Per-label loss, compared with binary losses."""

import copy
import pickle

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from skorch import NeuralNet

from sklearn_calib import NeuralClassifier, losses
from sklearn_calib.losses import (
    FocalLoss,
    MDCALoss,
    PerLabelLoss,
    get_loss,
    get_loss_names,
    per_label_loss,
)

BASES = [name for name in get_loss_names() if get_loss(name).is_per_sample]
all_bases = pytest.mark.parametrize("base", BASES)

GENERATOR = torch.Generator().manual_seed(0)
LOGITS = 2 * torch.randn(6, 3, generator=GENERATOR, dtype=torch.float64)
TARGET = torch.randint(2, (6, 3), generator=GENERATOR)


COPIERS = {
    "clone": clone,
    "deepcopy": copy.deepcopy,
    "pickle": lambda loss: pickle.loads(pickle.dumps(loss)),
    "repr": lambda loss: eval(
        repr(loss), {n: getattr(losses, n) for n in losses.__all__}
    ),
}


def value_and_grad(loss, logits, target, **kwargs):
    logits = logits.clone().requires_grad_()
    value = loss(logits, target, **kwargs)
    value.sum().backward()
    return value.detach(), logits.grad


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.float32])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_the_binary_cross_entropy_of_torch(dtype, reduction):
    loss = PerLabelLoss(reduction=reduction)
    value, grad = value_and_grad(loss, LOGITS, TARGET.to(dtype))
    logits = LOGITS.clone().requires_grad_()
    expected = F.binary_cross_entropy_with_logits(
        logits, TARGET.double(), reduction=reduction
    )
    expected = expected.mean(1) if reduction == "none" else expected
    expected.sum().backward()
    torch.testing.assert_close(value, expected.detach())
    torch.testing.assert_close(grad, logits.grad)


@pytest.mark.parametrize(
    ("logit", "present", "base", "expected"),
    [
        # p = sigmoid(logit); values from mpmath with 50 digits.
        (1.5, 1, {"base": "focal", "base__gamma": 3}, 0.0012227703615743899),
        (1.5, 0, {"base": "focal", "base__gamma": 3}, 0.92980481773188045),
        (40.0, 1, {"base": "focal", "base__gamma": 2}, 7.6676480737219996e-53),
        (1.5, 1, {"base": "focal_calibration", "base__gamma": 2}, 0.073260990398622625),
        (1.5, 0, {"base": "focal_calibration", "base__gamma": 2}, 2.4741283638657981),
    ],
)
def test_known_values(logit, present, base, expected):
    logits = torch.tensor([[logit]], dtype=torch.float64)
    loss = per_label_loss(logits, torch.tensor([[present]]), **base)
    assert loss.item() == pytest.approx(expected, rel=1e-12, abs=0)


@all_bases
def test_each_label_is_a_binary_problem(base):
    values = per_label_loss(LOGITS, TARGET, base=base, reduction="none")
    of_two = get_loss(base)(reduction="none").eval()
    expected = [
        of_two(torch.stack([torch.zeros_like(z), z], 1), y)
        for z, y in zip(LOGITS.T, TARGET.T, strict=True)
    ]
    assert values.shape == (6,)
    torch.testing.assert_close(values, torch.stack(expected).mean(0))
    for reduction, total in {"mean": values.mean(), "sum": values.sum()}.items():
        loss = PerLabelLoss(base=base, reduction=reduction)
        torch.testing.assert_close(loss(LOGITS, TARGET), total)


@all_bases
def test_zeros_and_ones_of_any_dtype(base):
    loss = PerLabelLoss(base=base)
    value, grad = value_and_grad(loss, LOGITS, TARGET)
    for dtype in (torch.bool, torch.uint8, torch.float16, torch.float64):
        found, found_grad = value_and_grad(loss, LOGITS, TARGET.to(dtype))
        torch.testing.assert_close(found, value)
        torch.testing.assert_close(found_grad, grad)


def test_probabilities_as_target():
    """Soft targets: the mean over presence and absence of a label."""
    loss = PerLabelLoss(base="focal")
    target = torch.full_like(LOGITS, 0.25)
    expected = (
        loss(LOGITS, torch.ones_like(TARGET)) + 3 * loss(LOGITS, torch.zeros(6, 3))
    ) / 4
    torch.testing.assert_close(loss(LOGITS, target), expected)


@all_bases
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_weights_are_repetitions(base, reduction):
    weight = torch.tensor([1, 0, 3, 1, 2, 1])
    loss = PerLabelLoss(base=base, reduction=reduction)
    value, grad = value_and_grad(loss, LOGITS, TARGET, sample_weight=weight)
    index = torch.repeat_interleave(torch.arange(6), weight)
    expected, each = value_and_grad(loss, LOGITS[index], TARGET[index])
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(grad, torch.zeros_like(grad).index_add(0, index, each))
    value, grad = value_and_grad(loss, LOGITS, TARGET, sample_weight=torch.zeros(6))
    assert value == 0
    assert (grad == 0).all()


@all_bases
@pytest.mark.parametrize("weight", [None, [2, 1, 0, 3, 1, 1], "per label"])
def test_unknown_labels_and_weights_per_label(base, weight):
    """The mean over all known labels, of the losses of separate binary problems."""
    known = torch.tensor([[1, 1, 0], [1, 0, 0], [1] * 3, [0] * 3, [1] * 3, [0, 1, 1]])
    given = torch.arange(18).reshape(6, 3) % 4 if weight == "per label" else weight
    given = given if given is None else torch.as_tensor(given)
    times = known.double()
    if given is not None:
        times = times * (given[:, None] if given.ndim == 1 else given)
    target = torch.where(known > 0, TARGET.double(), torch.nan)

    logits, sums = LOGITS.clone().requires_grad_(), 0
    of_two = get_loss(base)(reduction="none").eval()
    for z, y, w in zip(logits.T, TARGET.T, times.T, strict=True):
        sums = sums + w * of_two(torch.stack([0 * z, z], 1), y)
    expected = {"mean": sums.sum() / times.sum(), "sum": sums.sum() / 3}
    for reduction, number in {**expected, "none": sums / 3}.items():
        loss = PerLabelLoss(base=base, reduction=reduction)
        value, grad = value_and_grad(loss, LOGITS, target, sample_weight=given)
        torch.testing.assert_close(value, number.detach())
        (each,) = torch.autograd.grad(number.sum(), logits, retain_graph=True)
        torch.testing.assert_close(grad, each)
        assert (grad[known == 0] == 0).all()


def test_no_label_is_known():
    value, grad = value_and_grad(PerLabelLoss(), LOGITS, torch.nan * TARGET)
    assert value == 0
    assert (grad == 0).all()


@all_bases
def test_order_of_labels(base):
    loss = PerLabelLoss(base=base, reduction="none")
    order = torch.tensor([2, 0, 1])
    torch.testing.assert_close(
        loss(LOGITS[:, order], TARGET[:, order]), loss(LOGITS, TARGET)
    )


# ACLS treats the largest logit as a constant; see test_acls.py.
@pytest.mark.parametrize("base", [name for name in BASES if name != "acls"])
def test_gradient(base):
    loss = PerLabelLoss(base=base, reduction="none")
    logits = LOGITS[1:3].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda z: loss(z, TARGET[1:3]), logits)


@all_bases
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [0.0, 1e-8, 50.0, 1e4])
def test_finite_at_extreme_logits(base, dtype, scale):
    logits = scale * torch.tensor([[1, -1, 1], [-1, 1, 0]], dtype=dtype)
    target = torch.tensor([[1, 1, 0], [0, 1, 0]])
    value, grad = value_and_grad(PerLabelLoss(base=base), logits, target)
    assert value.dtype == grad.dtype == dtype
    assert torch.isfinite(value)
    assert torch.isfinite(grad).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("target_dtype", [torch.int64, torch.float32])
def test_half_precision_is_widened(dtype, target_dtype):
    loss, target = PerLabelLoss(base="focal"), TARGET.to(target_dtype)
    logits = (10 * LOGITS).to(dtype)
    value, grad = value_and_grad(loss, logits, target)
    expected, expected_grad = value_and_grad(loss, logits.float(), target)
    assert value.dtype == torch.float32
    assert torch.equal(value, expected)
    assert torch.equal(grad, expected_grad.to(dtype))


@pytest.mark.parametrize("copier", COPIERS.values())
@pytest.mark.parametrize(
    "loss",
    [
        PerLabelLoss(),
        PerLabelLoss(base="focal", base__gamma=5.0, reduction="sum"),
        PerLabelLoss(base=FocalLoss(gamma=2.0)),
    ],
)
def test_copies(loss, copier):
    twin = copier(loss)
    assert twin is not loss
    assert repr(twin) == repr(loss)
    assert torch.equal(twin(LOGITS, TARGET), loss(LOGITS, TARGET))
    function = per_label_loss(LOGITS, TARGET, **twin.get_params(deep=False))
    assert torch.equal(function, loss(LOGITS, TARGET))


def test_deep_params_list_those_of_the_base():
    params = PerLabelLoss(base="focal").get_params()
    assert params == {"base": "focal", "reduction": "mean", "base__gamma": 3.0}


def test_only_multilabel_loss():
    """The other losses are not for multi-label problems."""
    assert get_loss_names(multilabel=True) == ["per_label"]
    assert get_loss("per_label") is PerLabelLoss
    assert "per_label" not in get_loss_names()


def labelled_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)).astype(np.float32)
    Y = X @ rng.normal(size=(3, 2)) + 0.5 * rng.logistic(size=(200, 2)) > 0
    return X, Y.astype(np.float32)


def test_skorch_network_learns_every_label():
    """The parameters of the loss and its base can be searched."""
    X, Y = labelled_data()
    net = NeuralNet(
        torch.nn.Linear,
        criterion=PerLabelLoss,
        criterion__base="focal",
        predict_nonlinearity=torch.sigmoid,
        module__in_features=3,
        module__out_features=2,
        optimizer=torch.optim.Adam,
        lr=0.2,
        max_epochs=5,
        train_split=None,
        verbose=0,
    )
    search = GridSearchCV(
        net,
        {"criterion__base__gamma": [0.0, 8.0]},
        scoring=lambda net, X, Y: -((net.predict_proba(X) - Y) ** 2).mean(),
        cv=2,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        search.fit(X, Y)
    assert search.best_params_ == {"criterion__base__gamma": 0.0}
    assert ((search.predict(X) > 0.5) == Y).mean() > 0.8


ONES = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("logits", "target", "error", "message"),
    [
        ([[1.0]], ONES, TypeError, "logits must be a torch.Tensor, got list"),
        (ONES, [[1.0]], TypeError, "target must be a torch.Tensor, got list"),
        (ONES.long(), ONES, TypeError, "logits must be floating point"),
        (ONES[0], ONES[0], ValueError, r"\(N, L\) with N >= 1 and L >= 1, got \(3,\)"),
        (ONES[:0], ONES[:0], ValueError, r"L >= 1, got \(0, 3\)"),
        (ONES, ONES[:, 0], ValueError, r"the shape of logits, \(2, 3\), got \(2,\)"),
        (ONES, ONES[:, :2], ValueError, r"\(2, 3\), got \(2, 2\)\. Pass a 0 or a 1"),
        (ONES, 2 * ONES, ValueError, r"target must lie in \[0, 1\], got .* in \[2, 2"),
        (ONES, -ONES.long(), ValueError, r"in \[-1, -1\]\. Pass 1 for the labels of"),
        (ONES, ONES + torch.inf, ValueError, r"in \[0, 1\], got values in \[inf, inf"),
    ],
)
def test_bad_batch(logits, target, error, message):
    with pytest.raises(error, match=message):
        PerLabelLoss()(logits, target)


@pytest.mark.parametrize(("shape", "rule"), [((3,), "2,"), ((2, 2), "2, 3")])
def test_bad_weights(shape, rule):
    with pytest.raises(ValueError, match=rf"sample_weight must have shape \({rule}\)"):
        PerLabelLoss()(ONES, ONES, sample_weight=torch.ones(shape))


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"base": "mdca"}, ValueError, "base must be .* got 'mdca'. Choose a loss"),
        ({"base": "per_label"}, ValueError, "base must be .* got 'per_label'"),
        ({"base": FocalLoss}, ValueError, "base must be the name or an instance"),
        ({"base": "focl"}, ValueError, "got 'focl'. Did you mean 'focal'"),
        ({"base": "focal", "base__gamma": -1}, ValueError, "gamma must be finite"),
        ({"base__gamma": 1}, ValueError, "'cross_entropy' has no parameter 'gamma'"),
        ({"gamma": 1}, TypeError, "Parameters of the base start with base__"),
        ({"reduction": "men"}, ValueError, "reduction must be one of .* got 'men'"),
    ],
)
def test_bad_parameters(params, error, message):
    with pytest.raises(error, match=message):
        PerLabelLoss(**params)
    with pytest.raises(error, match=message):
        per_label_loss(LOGITS, TARGET, **params)


def test_per_label_is_not_a_base():
    with pytest.raises(ValueError, match=r"base must be .* got 'per_label'"):
        MDCALoss(base="per_label")


def test_neural_classifier_refuses_per_label_loss():
    X, Y = labelled_data()
    net = NeuralClassifier(loss="per_label", max_epochs=1)
    message = "use another loss, such as 'focal', if each sample has one class"
    with pytest.raises(ValueError, match=message):
        net.fit(X, Y[:, 0])


def test_target_of_any_integers():
    target = torch.tensor([[1, 0, 0], [0, 1, 1]])
    expected = per_label_loss(torch.ones(2, 3), target)
    for kind in (torch.uint8, torch.uint64, torch.bool):
        assert per_label_loss(torch.ones(2, 3), target.to(kind)) == expected
    with pytest.raises(ValueError, match=r"target must lie in \[0, 1\], got values in"):
        per_label_loss(torch.ones(2, 3), (target - 1).to(torch.uint64))
