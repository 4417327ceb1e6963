"""Autocast does not change a loss in single precision."""

import pytest
import torch

from sklearn_calib.losses import get_loss, get_loss_names

OTHERS = [
    ("kde_ece", {"mode": "classwise"}),
    ("kde_ece", {"mode": "top_label", "bandwidth": 0.05}),
]


@pytest.mark.parametrize(
    ("name", "params"), [(name, {}) for name in get_loss_names()] + OTHERS
)
def test_autocast_changes_nothing(name, params):
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(64, 7, generator=generator)
    target = torch.randint(7, (64,), generator=generator)
    results = []
    for enabled in (False, True):
        z = logits.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            value = get_loss(name)(**params)(z, target)
        value.backward()
        results.append((value.detach(), z.grad))
    torch.testing.assert_close(results[1], results[0])
