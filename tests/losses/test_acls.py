import numpy as np
import pytest
import torch
from scipy.optimize import root

from sklearn_calib.losses import (
    ACLSLoss,
    acls_loss,
    cross_entropy_loss,
    focal_loss,
    mbls_loss,
)


@pytest.mark.parametrize(
    ("params", "logits", "target", "expected"),
    [
        # Cross-entropy with 50 digits, and the penalty by hand.
        # Within the margin: cross-entropy.
        ({}, (9.0, 0.0, 0.0), 0, 0.0002467891532250189),
        # 0.1 * (1.0 * 2 ** 2 + 0.1 * (2 ** 2 + 7 ** 2) / 2)
        ({}, (12.0, 0.0, -5.0), 0, 0.6650061855925997),
        # The predicted class counts, whether it is correct or not.
        ({}, (12.0, 0.0, -5.0), 1, 12.665006185592599),
        # 0.5 * (2 * 1 ** 2 + 1 * (1 ** 2 + 2 ** 2) / 2), margin 2
        (
            {"margin": 2.0, "lambd": 0.5, "lambd_top": 2.0, "lambd_others": 1.0},
            (3.0, 0.0, -1.0),
            0,
            2.3158839037574293,
        ),
        # Far apart, but the largest is small: 0.1 * 0.1 * (0 + 10 ** 2) / 2
        ({}, (0.0, -20.0, -10.0), 0, 0.5000454009602769),
    ],
)
def test_known_values(params, logits, target, expected):
    logits = torch.tensor([logits], dtype=torch.float64)
    loss = acls_loss(logits, torch.tensor([target]), **params)
    assert loss.item() == pytest.approx(expected, rel=1e-13, abs=0)


def test_gradient_of_the_penalty():
    """By hand: the largest logit is treated as a constant in the second term."""
    logits = torch.tensor([[6.0, 1.0, -1.0]]).double().requires_grad_()
    target = torch.tensor([2])
    loss = acls_loss(logits, target, margin=4.0, lambd_top=3.0, lambd_others=0.5)
    (grad,) = torch.autograd.grad(loss - cross_entropy_loss(logits, target), logits)
    # 0.1 * 3 * 2 * (6 - 4), and -0.1 * 0.5 / 2 * 2 * (6 - 1 - 4), (6 + 1 - 4)
    expected = torch.tensor([[1.2, -0.05, -0.15]]).double()
    torch.testing.assert_close(grad, expected)


def test_second_derivative():
    logits = torch.tensor([[6.0, 1.0, -1.0], [-7.0, 0.0, 3.0]]).double()
    target = torch.tensor([0, 1])
    loss = ACLSLoss(margin=2.0, lambd=1.0, reduction="sum")
    hessian = torch.autograd.functional.hessian
    both = hessian(lambda z: loss(z, target), logits)
    of_base = hessian(lambda z: cross_entropy_loss(z, target, reduction="sum"), logits)
    # 2 * 1.0 for the largest, 2 * 0.1 / 2 for each of the others beyond the margin.
    expected = torch.tensor([2.0, 0.1, 0.1, 0.1, 0.1, 2.0]).double().diag()
    torch.testing.assert_close((both - of_base).reshape(6, 6), expected)


def test_weights_of_the_terms():
    """A weight of 0 disables its term only."""
    logits, target = torch.tensor([[20.0, 0.0], [0.0, -20.0]]), torch.tensor([0, 0])

    def penalty(**params):
        params = {"lambd": 1.0, "reduction": "none", **params}
        base = cross_entropy_loss(logits, target, reduction="none")
        return acls_loss(logits, target, **params) - base

    torch.testing.assert_close(penalty(lambd_others=0), torch.tensor([100.0, 0.0]))
    torch.testing.assert_close(penalty(lambd_top=0), torch.tensor([10.0, 10.0]))


@pytest.mark.parametrize("base", ["cross_entropy", "focal"])
def test_order_of_the_classes_is_kept(base):
    """At the zero of the expected gradient, which is not the gradient of a function."""
    eta = torch.tensor([0.9, 0.05, 0.03, 0.02]).double()

    def expected_gradient(row):
        logits = torch.from_numpy(row).repeat(4, 1).requires_grad_()
        loss = acls_loss(
            logits, torch.arange(4), margin=0.1, lambd=1.0, base=base, sample_weight=eta
        )
        (grad,) = torch.autograd.grad(loss, logits)
        return grad.sum(0).numpy()

    logits = root(expected_gradient, np.zeros(4), method="df-sane", tol=1e-12).x
    assert np.abs(expected_gradient(logits)).max() < 1e-9
    assert (np.diff(logits) < 0).all()


def test_base_is_replaced():
    logits, target = torch.tensor([[12.0, 0.0, 3.0]]), torch.tensor([2])
    loss = ACLSLoss(base="mbls", base__margin=3.0, base__base="focal")
    expected = (
        acls_loss(logits, target)
        - cross_entropy_loss(logits, target)
        + mbls_loss(logits, target, margin=3.0, base="focal")
    )
    torch.testing.assert_close(loss(logits, target), expected)
    assert acls_loss(logits, target, base="focal", lambd=0) == focal_loss(
        logits, target
    )


@pytest.mark.parametrize("name", ["margin", "lambd_top", "lambd_others", "lambd"])
def test_bad_parameters(name):
    with pytest.raises(ValueError, match=f"{name} must be finite and >= 0, got -1"):
        ACLSLoss(**{name: -1.0})
    with pytest.raises(TypeError, match=f"{name} must be a number"):
        acls_loss(torch.zeros(1, 2), torch.tensor([0]), **{name: "1"})
