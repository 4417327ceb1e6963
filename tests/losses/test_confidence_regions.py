"""Regions of over- and underconfidence of the focal and the dual focal loss."""

import math

import mpmath
import numpy as np
import pytest
import torch

from sklearn_calib.losses import DualFocalLoss, FocalLoss, confidence_regions

# Numbers of classes and parameters of the Dirichlet distribution.
SHAPES = [(2, 1.0), (3, 1.0), (10, 1.0), (50, 100.0)]


@pytest.mark.parametrize("competitor", [0.1, 0.3, 0.9])
def test_gamma_one(competitor):
    """Phi is 1 - v + q - v log v, with the derivative -2 - log v.

    It is 1 where v (1 + log v) = q, or with u = e v, where u log u = e q.
    """
    q = mpmath.mpf(competitor)
    over, under = confidence_regions(1.0, competitor)
    assert over == pytest.approx(math.exp(-2), rel=1e-9)
    assert under == pytest.approx(float(q / mpmath.lambertw(mpmath.e * q)), rel=1e-9)


def test_figure_1():
    """The figure of the paper has gamma 1 and q = 0.3; read from phi on a grid."""
    v = np.arange(1, 10000) / 10000
    for q in (0.0, 0.3):
        phi = 1 - v + q - v * np.log(v)
        over, under = confidence_regions(1.0, q)
        assert over == pytest.approx(v[phi.argmax()], abs=1e-4)
        assert under == pytest.approx(v[phi >= 1].max(), abs=1e-4)


@pytest.mark.parametrize("q", [0.0, 0.05, 0.3, 0.999])
@pytest.mark.parametrize("gamma", [0.1, 1.0, 2.0, 5.0, 50.0])
def test_lemma_1(gamma, q):
    """Phi (by mpmath) increases up to v_over only, and is 1 at v_under."""
    gamma, q = mpmath.mpf(gamma), mpmath.mpf(q)

    def phi(v):
        base = 1 - v + q
        return base**gamma - gamma * base ** (gamma - 1) * v * mpmath.log(v)

    over, under = confidence_regions(float(gamma), float(q))
    slope = mpmath.diff(phi, mpmath.mpf(over)) / phi(over)
    assert float(slope) == pytest.approx(0, abs=1e-8)
    assert phi(mpmath.mpf(under)) == pytest.approx(1, abs=1e-9)
    slopes = [mpmath.diff(phi, mpmath.mpf(k) / 200) for k in range(1, 200)]
    assert [slope > 0 for slope in slopes] == [k / 200 < over for k in range(1, 200)]
    assert 0 < over < under < 1


@pytest.mark.parametrize("gamma", [0.5, 1.0, 3.0])
def test_focal_loss(gamma):
    """The confidence is above the posterior in one region, and below in the other."""
    over, under = confidence_regions(gamma)
    rng = np.random.default_rng(0)
    proba = np.concatenate(
        [rng.dirichlet(np.full(k, a), 300) @ np.eye(k, 50) for k, a in SHAPES]
    )
    top = proba.max(axis=1)
    excess = top - FocalLoss(gamma=gamma).posterior(proba).max(axis=1)
    assert (top <= over).sum() > 100
    assert (excess[top <= over] > 0).all()
    assert (excess[(top >= under) & (top < 0.999)] < 0).all()


def test_dual_focal_loss_has_other_regions():
    """The counterexample of the docstring, by a search over all probabilities."""
    step = 1 / 500
    one, two = np.meshgrid(np.arange(step, 1, step), np.arange(step, 0.5, step))
    q = np.stack([one, two, 1 - one - two], axis=-1)
    q = q[(q[..., 0] > q[..., 1]) & (q[..., 1] > q[..., 2]) & (q[..., 2] > step / 2)]
    # Ties, where the loss jumps, are left out.
    q = q[(-np.diff(q, axis=1) > step / 2).all(axis=1)]
    logits = torch.from_numpy(np.log(q))
    loss = DualFocalLoss(gamma=1.0, reduction="none")
    risk = sum(
        eta * loss(logits, torch.full((len(q),), k))
        for k, eta in enumerate([0.6, 0.3, 0.1])
    )
    best = q[risk.argmin()]
    assert best == pytest.approx([0.624, 0.289, 0.087], abs=0.002)
    assert best[0] > confidence_regions(1.0, best[1])[1] > 0.59
    assert best[0] > 0.6


def test_bad_input():
    for gamma in (0, -1.0, math.inf):
        with pytest.raises(ValueError, match="'gamma' parameter of confidence_regions"):
            confidence_regions(gamma)
    for q in (-0.1, 1.0):
        with pytest.raises(ValueError, match="'competitor' parameter of"):
            confidence_regions(1.0, q)
