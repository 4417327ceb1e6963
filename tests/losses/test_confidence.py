"""Confidence functions on logits agree with those of the metrics on probabilities."""

import numpy as np
import pytest
import torch
from scipy.special import softmax

from sklearn_calib._numerics.confidence import (
    CONFIDENCES,
    get_confidence,
    needs_logits,
)
from sklearn_calib.losses import RegularizedAURCLoss
from sklearn_calib.losses._base.logit_confidence import _CONFIDENCES, compute_confidence

LOGITS = np.random.default_rng(0).normal(size=(200, 5)) * 3


def test_the_same_names():
    assert sorted(_CONFIDENCES) == sorted(CONFIDENCES)


@pytest.mark.parametrize("name", _CONFIDENCES)
@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_the_same_numbers(name, scale, n_classes):
    logits = scale * LOGITS[:, :n_classes]
    if name == "p_norm" and n_classes == 2:
        with pytest.raises(ValueError, match="at least three classes, got 2"):
            compute_confidence(name, torch.tensor(logits))
        return
    argument = logits if needs_logits(name) else softmax(logits, axis=1)
    expected = get_confidence(name)(argument)
    score = compute_confidence(name, torch.tensor(logits))
    np.testing.assert_allclose(score, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", _CONFIDENCES)
def test_gradient(name):
    logits = torch.tensor(LOGITS[:3], requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: compute_confidence(name, z), logits)


@pytest.mark.parametrize("name", _CONFIDENCES)
def test_score_increases_with_the_confidence(name):
    logits = torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [9.0, 0.0, 0.0]])
    score = compute_confidence(name, logits)
    if name == "p_norm":  # it does not depend on the scale of the logits
        assert score[0] == 0 < score[1] == score[2]
    else:
        assert (score.diff() > 0).all()


def test_p_norm_of_equal_logits_is_finite():
    rows = [[0.1, 0.1, 0.1], [0, -3, -1], [3, -3, 3]]
    logits = torch.tensor(rows, requires_grad=True)
    score = compute_confidence("p_norm", logits)
    score.sum().backward()
    assert torch.isfinite(logits.grad).all()
    expected = get_confidence("p_norm")(np.array(rows))
    np.testing.assert_allclose(score.detach(), expected, rtol=1e-6, atol=1e-12)


def test_callable_confidence():
    loss = RegularizedAURCLoss(confidence=lambda logits: logits.softmax(1).amax(1))
    batch = torch.tensor(LOGITS[:20]), torch.arange(20) % 5
    torch.testing.assert_close(loss(*batch), RegularizedAURCLoss()(*batch))


@pytest.mark.parametrize(
    ("confidence", "message"),
    [
        (
            "mps",
            r"confidence must be one of \['l2_norm', .*\] .*got 'mps'. Did you mea",
        ),
        (
            None,
            "confidence must be one of .* or a callable that takes logits, got None",
        ),
    ],
)
def test_unknown(confidence, message):
    with pytest.raises(ValueError, match=message):
        RegularizedAURCLoss(confidence=confidence)


@pytest.mark.parametrize(
    ("confidence", "message"),
    [
        (
            lambda z: z.softmax(1),
            r"confidence must return a tensor of shape \(4,\), .*got shape \(4, 2\)",
        ),
        (
            lambda z: len(z),
            r"confidence must return a tensor of shape \(4,\), .*got shape \(\)",
        ),
        (lambda z: z.amax(1) * np.nan, "confidence must be finite, got nan"),
        (
            lambda z: z.amax(1) * np.inf,
            "confidence must be finite, got inf",
        ),
    ],
)
def test_bad_values(confidence, message):
    loss = RegularizedAURCLoss(confidence=confidence)
    with pytest.raises(ValueError, match=message):
        loss(torch.ones(4, 2), torch.zeros(4).long())
