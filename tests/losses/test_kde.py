import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import dirichlet

from sklearn_calib.losses import KDEECELoss, cross_entropy_loss, kde_ece_loss

REFERENCE = "loss_kde_ece"
NOT_FOLLOWED = {}

# The candidates of "auto".
BANDWIDTHS = 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0
MODES = {"canonical": "canonical", "marginal": "classwise", "top_label": "top_label"}

all_modes = pytest.mark.parametrize("mode", ["canonical", "classwise", "top_label"])


def penalty(logits, target, **params):
    """Return the calibration error without the base loss."""
    value = kde_ece_loss(logits, target, lambd=1.0, **params)
    return value - cross_entropy_loss(logits, target)


def random_batch(n_samples=12, n_classes=3):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(n_samples, n_classes, generator=generator).double()
    return logits, torch.randint(n_classes, (n_samples,), generator=generator)


def test_recorded(recorded, assert_recorded):
    """The authors' code computes the calibration error only."""
    params = recorded["params"]
    mode, norm = MODES[params["mc_type"]], f"l{params['p']}"
    bandwidth = params["bandwidth"]
    assert_recorded(
        recorded,
        lambda *batch: penalty(*batch, mode=mode, norm=norm, bandwidth=bandwidth),
    )


def log_likelihood(proba, bandwidth):
    """Return the leave-one-out log likelihood of the rows, computed by SciPy."""
    kernels = np.array([dirichlet.logpdf(proba.T, q / bandwidth + 1) for q in proba])
    np.fill_diagonal(kernels, -np.inf)
    return logsumexp(kernels, axis=0).sum()


@pytest.mark.parametrize("scale", [0.01, 0.3, 1.0, 4.0])
def test_auto_bandwidth(scale):
    """SciPy's likelihood chooses the same bandwidth, which depends on the data."""
    logits, target = random_batch()
    proba = (scale * logits).softmax(1).numpy()
    best = max(BANDWIDTHS, key=lambda width: log_likelihood(proba, width))
    auto = kde_ece_loss(scale * logits, target, bandwidth="auto")
    assert auto == kde_ece_loss(scale * logits, target, bandwidth=best)
    others = [w for w in BANDWIDTHS if w != best]
    assert all(
        auto != kde_ece_loss(scale * logits, target, bandwidth=w) for w in others
    )


@all_modes
def test_single_sample(mode):
    """The error of a single sample is 0, whatever its weight."""
    logits, target = torch.tensor([[3.0, 1.0, 0.0]]), torch.tensor([2])
    expected = cross_entropy_loss(logits, target)
    loss = KDEECELoss(mode=mode)
    torch.testing.assert_close(loss(logits, target), expected)
    weight = torch.tensor([0.5])
    torch.testing.assert_close(loss(logits, target, sample_weight=weight), expected)


@all_modes
def test_equal_predictions(mode):
    """For equal predictions r is the class frequency among the other samples."""
    logits = torch.tensor([[2.0, 1.0, 0.0]]).double().expand(4, 3)
    target = torch.tensor([0, 0, 1, 1])
    p = logits[0].softmax(0)
    frequency = torch.tensor([[1, 2, 0], [1, 2, 0], [2, 1, 0], [2, 1, 0]]) / 3
    gap = (frequency - p).abs()
    expected = gap[:, 0].mean() if mode == "top_label" else gap.sum(1).mean()
    for bandwidth in (0.001, 0.1, "auto"):
        error = penalty(logits, target, mode=mode, bandwidth=bandwidth)
        torch.testing.assert_close(error, expected)


@pytest.mark.parametrize("mode", ["canonical", "classwise"])
def test_one_class(mode):
    """All labels are the same class: r is 1 for it and 0 for the others."""
    logits, _ = random_batch()
    target = torch.zeros(12, dtype=torch.int64)
    p = logits.softmax(1)
    expected = 2 * (1 - p[:, 0]).mean()
    torch.testing.assert_close(penalty(logits, target, mode=mode), expected)


@all_modes
@pytest.mark.parametrize("bandwidth", [0.001, 1.0, "auto"])
def test_saturated(mode, bandwidth):
    """Confident wrong predictions have a gradient although p rounds to 1."""
    signs = torch.tensor([1.0, 1.0, -1.0, -1.0])
    logits = 60 * torch.stack([signs, -signs, torch.zeros(4)], 1)
    logits.requires_grad_()
    target = torch.tensor([0, 1, 1, 2])
    error = penalty(logits, target, mode=mode, bandwidth=bandwidth)
    error.backward()
    assert error > 0.49
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"mode": "top"}, ValueError, "mode must be one of 'canonical', 'classwise'"),
        ({"norm": "l3"}, ValueError, "norm must be one of 'l1', 'l2', got 'l3'"),
        ({"bandwidth": 0}, ValueError, "bandwidth must be finite and > 0, or 'auto'"),
        ({"bandwidth": "aut"}, TypeError, "bandwidth must be a number, finite and > 0"),
        ({"gamma": 1}, TypeError, "unexpected keyword argument 'gamma'"),
    ],
)
def test_bad_parameters(params, error, message):
    with pytest.raises(error, match=message):
        KDEECELoss(**params)
    with pytest.raises(error, match=message):
        kde_ece_loss(torch.ones(2, 2), torch.tensor([0, 1]), **params)
