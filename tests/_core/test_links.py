"""Probabilities from logits, without overflow."""

import numpy as np
import pytest

from sklearn_calib._core.links import log_softmax, softmax


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("link", [softmax, log_softmax])
def test_extreme_logits(link, dtype):
    logits = np.array([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4]], dtype=dtype)
    before = logits.copy()
    values = link(logits)
    assert values.dtype == dtype
    np.testing.assert_array_equal(logits, before)
    third = 1 / 3 if link is softmax else np.log(1 / 3)
    first = [1, 0, 0] if link is softmax else [0, -2e4, -1e4]
    np.testing.assert_allclose(values, [first, [third] * 3], rtol=1e-6)


def test_known_values():
    # exp(z) / sum(exp(z)) and its logarithm, from the decimal module with 40 digits.
    proba = [0.042010066134066051, 0.11419519938459448, 0.84379473448133947]
    log_proba = [-3.1698460195562856, -2.1698460195562856, -0.16984601955628565]
    logits = np.array([[1.0, 2.0, 4.0]])
    np.testing.assert_allclose(softmax(logits)[0], proba, rtol=1e-14)
    np.testing.assert_allclose(log_softmax(logits)[0], log_proba, rtol=1e-14)
