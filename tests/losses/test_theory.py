"""Minimisers of the expected loss, and the true probabilities recovered from them.

Let eta be the true class probabilities. A loss is proper if its expected value is
minimal at eta, and preserves the order if its minimiser orders the classes as eta does.

Theorems of Charoenphakdee et al. 2021, Tao et al. 2023 (section 4) and Liang et al.
2025 (section 4) are tested; two of them do not hold as stated.
"""

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from scipy.optimize import minimize
from scipy.special import entr, log_softmax, rel_entr

from sklearn_calib.losses import (
    BrierLoss,
    CrossEntropyLoss,
    DualFocalLoss,
    FocalCalibrationLoss,
    FocalLoss,
    InverseFocalLoss,
)

ETAS = [[0.7, 0.3], [0.5, 0.3, 0.2], [0.9, 0.05, 0.03, 0.02], [0.99, 0.01]]
all_etas = pytest.mark.parametrize("eta", ETAS, ids=str)
PROPER = [BrierLoss(), CrossEntropyLoss()]
WITH_POSTERIOR = [
    *PROPER,
    *(FocalLoss(gamma=gamma) for gamma in (0, 0.5, 1, 3, 5)),
    *(InverseFocalLoss(gamma=gamma) for gamma in (0.5, 1)),
    *(FocalCalibrationLoss(gamma=3, lambd=lambd) for lambd in (0.1, 0.5, 1.5, 5)),
    FocalCalibrationLoss(gamma=0.5, lambd=2),
    *(FocalCalibrationLoss(gamma=3, lambd=lambd, norm="l1") for lambd in (0.1, 1)),
]


def expected_loss(loss, logits, eta):
    """Return the expected loss and its gradient with respect to the logits."""
    logits = torch.tensor(np.tile(logits, (len(eta), 1)), requires_grad=True)
    weight = torch.tensor(eta, dtype=torch.float64)
    value = loss(logits, torch.arange(len(eta)), sample_weight=weight)
    value.backward()
    return value.item(), logits.grad.sum(0).numpy()


def minimiser(loss, eta, n_starts=2):
    """Return the probabilities with the smallest expected loss, from a few starts."""
    starts = [np.random.default_rng(0).normal(size=len(eta)), np.log(eta)]
    found = [
        minimize(
            lambda logits: expected_loss(loss, logits, eta),
            start,
            jac=True,
            options={"gtol": 1e-8},
        )
        for start in starts[:n_starts]
    ]
    best = min(found, key=lambda result: result.fun)
    return np.exp(best.x) / np.exp(best.x).sum()


@all_etas
@pytest.mark.parametrize("loss", PROPER, ids=repr)
def test_proper(loss, eta):
    np.testing.assert_allclose(minimiser(loss, eta), eta, atol=1e-6)


@all_etas
@pytest.mark.parametrize("loss", WITH_POSTERIOR, ids=repr)
def test_posterior_is_recovered(loss, eta):
    """From the numerical minimiser, to its precision. No other point is stationary."""
    q = minimiser(loss, eta, n_starts=1)
    np.testing.assert_allclose(loss.posterior(q[None])[0], eta, rtol=1e-4)


@all_etas
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_posterior_is_recovered_where_the_gradient_vanishes(norm, eta):
    """The self-adaptive weight is treated as a constant, so there is no minimum."""
    loss = FocalCalibrationLoss(gamma=2, lambd=1, norm=norm, gamma_cal=2)
    logits, step = np.random.default_rng(0).normal(size=len(eta)), 0
    for _ in range(20_000):
        grad = expected_loss(loss, logits, eta)[1]
        step = 0.6 * step - 2 * grad  # with momentum
        logits += step
        if np.abs(grad).max() < 1e-7:
            break
    q = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(loss.posterior(q[None])[0], eta, rtol=1e-4)


def is_continuous(loss):
    """Return whether a per-sample loss is continuous and decreases with p_t.

    ACLS treats a term as constant, so that no minimum is found; see test_acls.py.
    """
    others = ("ACLS", "DualFocal", "dual_focal", "SampleDependentFocal")
    rises = isinstance(loss, InverseFocalLoss) and loss.gamma > 3.591
    return loss.is_per_sample and not rises and not any(n in repr(loss) for n in others)


@pytest.mark.slow
@pytest.mark.losses(where=is_continuous)
def test_order(loss):
    """The minimiser preserves the order of the classes, except for ties."""
    for eta in [*ETAS, [0.55, 0.45]]:
        assert (np.diff(minimiser(loss, eta)) < 1e-6).all()


@all_etas
@pytest.mark.parametrize("gamma", [3, 5, 10])
def test_order_without_ties(gamma, eta):
    """Theorem 1 of Tao et al. 2023, if no two classes are tied."""
    assert (np.diff(minimiser(DualFocalLoss(gamma=gamma), eta)) < 0).all()


@pytest.mark.parametrize(
    ("lambd", "expected"), [(0, 0.558), (0.5, 0.598), (1.5, 0.6345), (50, 0.6962)]
)
def test_focal_calibration_is_not_proper(lambd, expected):
    """The minimiser does not reach 0.7, contrary to section 4.3 of Liang et al."""
    q = minimiser(FocalCalibrationLoss(gamma=3, lambd=lambd), [0.7, 0.3])
    assert q[0] == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(
    ("eta", "expected"),
    [([0.9, 0.05, 0.05], 0.6094), ([0.0866] + [0.9134 / 99] * 99, 0.1)],
    ids=["confident", "uniform"],
)
def test_focal_is_under_or_overconfident(eta, expected):
    """With one likely class, and with a hundred similar ones."""
    q = minimiser(FocalLoss(gamma=3), eta)
    assert q[0] == pytest.approx(expected, abs=5e-4)


def test_tie_minimises_dual_focal():
    """At a tie nothing is strictly below p_t, and the weight is much smaller."""
    loss, eta = DualFocalLoss(gamma=5), [0.7, 0.3]
    q = minimiser(loss, eta)
    assert q[0] == pytest.approx(0.6845, abs=5e-4)
    off_ties, tied = (expected_loss(loss, z, eta)[0] for z in (np.log(q), [0.0, 0.0]))
    assert off_ties == pytest.approx(0.0785, abs=5e-4)
    assert tied == pytest.approx(0.5**5 * np.log(2), rel=1e-12)


@pytest.mark.parametrize("kind", [FocalLoss, DualFocalLoss])
@pytest.mark.parametrize("is_soft", [False, True])
@given(
    gamma=st.floats(0, 20), n_classes=st.integers(2, 6), seed=st.integers(0, 2**32 - 1)
)
def test_focal_is_bounded_by_divergence_and_entropy(
    kind, is_soft, gamma, n_classes, seed
):
    """FL >= KL(y || p) - gamma H(p): Mukhoti et al. 2020, section 4.

    Their proof keeps the entropy of soft y, by which cross-entropy exceeds KL, up to
    the last step, and needs gamma >= 1. The bound also holds below: the weight is at
    least 1 + gamma log(1 - p_t), and log(p_t) log(1 - p_t) <= H(p). The weight of the
    dual focal loss is not smaller.
    """
    rng = np.random.default_rng(seed)
    logits = rng.uniform(0, 20, (100, 1)) * rng.normal(size=(100, n_classes))
    y = np.eye(n_classes)[rng.integers(n_classes, size=100)]
    if is_soft:
        y = rng.dirichlet(np.full(n_classes, 0.3), size=100)
    log_p = log_softmax(logits, axis=1)
    p = np.exp(log_p)
    entropy = -(p * log_p).sum(axis=1)
    divergence = rel_entr(y, p).sum(axis=1)
    target = torch.tensor(y if is_soft else y.argmax(axis=1))
    value = kind(gamma=gamma, reduction="none")(torch.tensor(logits), target).numpy()
    bound = divergence + entr(y).sum(axis=1) - gamma * entropy
    assert (value >= bound - 1e-13 * (1 + divergence)).all()


def stationary_posterior(q, gamma, *, whole):
    """Return the posterior eta for which the dual focal loss is stationary at q.

    The derivative with respect to q_k has a term with eta_k and one with the eta of the
    class ranked above it. Without the latter this is equation 9 of Tao et al. 2023.
    """
    base = 1 - q + np.append(q[1:], 0)
    through_q = -gamma * base ** (gamma - 1) * np.log(q)
    slope = through_q + base**gamma / q
    eta = [1 / slope[0]]
    for k in range(1, len(q)):
        eta.append((1 + whole * eta[-1] * through_q[k - 1]) / slope[k])
    return np.array(eta) / sum(eta)


@pytest.mark.parametrize("eta", [[0.7, 0.3], [0.5, 0.3, 0.2]], ids=str)
def test_dual_focal_has_no_posterior(eta):
    """The map is correct at minimisers, but elsewhere changes the order of classes."""
    q = minimiser(DualFocalLoss(gamma=5), eta)
    whole = stationary_posterior(q, 5, whole=True)
    np.testing.assert_allclose(whole, eta, rtol=1e-4)
    printed = stationary_posterior(q, 5, whole=False)
    assert np.abs(printed - eta).max() > 0.05
    elsewhere = stationary_posterior(np.array([0.55, 0.45]), 5, whole=True)
    np.testing.assert_allclose(elsewhere, [0.087, 0.913], atol=5e-4)
    message = "minimiser of DualFocalLoss to the posterior is not known"
    with pytest.raises(NotImplementedError, match=message):
        DualFocalLoss().posterior([q])


def test_inverse_focal_has_a_posterior_up_to_gamma_1():
    """Above 1 the minimiser jumps, and the map would change the order."""
    assert minimiser(InverseFocalLoss(gamma=3), [0.51, 0.49])[0] > 0.9
    q = np.array([0.55, 0.45])
    derivative = -((1 + q) ** 3) / q - 3 * (1 + q) ** 2 * np.log(q)
    posterior = 1 / derivative / (1 / derivative).sum()
    assert posterior[0] < 0.5
    with pytest.raises(ValueError, match=r"gamma must be at most 1 .* got 3\. Calib"):
        InverseFocalLoss(gamma=3).posterior([q])


def test_no_posterior_with_label_smoothing():
    with pytest.raises(ValueError, match=r"label_smoothing must be 0 .* got 0\.1\."):
        CrossEntropyLoss(label_smoothing=0.1).posterior([[0.5, 0.5]])


@pytest.mark.parametrize("loss", WITH_POSTERIOR, ids=repr)
def test_posterior_takes_probabilities_only(loss):
    with pytest.raises(ValueError, match=r"proba must lie in \[0, 1\].*not logits"):
        loss.posterior([[3.0, -2.0]])
    assert loss.posterior([[1, 0], [0.5, 0.5]]).tolist() == [[1, 0], [0.5, 0.5]]
