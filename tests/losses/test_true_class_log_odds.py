import pytest
import torch

from sklearn_calib.losses._base.stable_gradients import true_class_log_odds


@pytest.mark.parametrize(
    ("logits", "expected"),
    [
        # mpmath with 50 digits: z[0] - log(sum(exp(z[1:])))
        ([0.0, 0.0], 0.0),
        ([40.0, 0.0], 40.0),
        ([0.0, 0.0, 0.0], -0.6931471805599453),
        ([3.0, 1.0, -2.0], 1.951412648426258),
        ([-1e4, 1e4, 1e4], -20000.69314718056),
        ([1e4, -1e4, -1e4 + 2], 19997.873071988957),
    ],
)
def test_known_values(logits, expected):
    logits = torch.tensor([logits], dtype=torch.float64)
    log_odds = true_class_log_odds(logits, torch.tensor([0]))
    assert log_odds.item() == pytest.approx(expected, rel=1e-15, abs=0)


def test_gradient_is_exact_at_any_log_odds():
    """It is 1 for the true class and minus the softmax over the other classes."""
    logits = torch.tensor([[1e4, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    true_class_log_odds(logits, torch.tensor([0])).backward()
    assert logits.grad.tolist() == [[1.0, -0.5, -0.5]]


def test_logits_are_not_modified():
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    before = logits.clone()
    true_class_log_odds(logits, torch.tensor([0, 1, 2, 0]))
    assert torch.equal(logits, before)
