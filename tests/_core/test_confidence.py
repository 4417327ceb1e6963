"""The largest probability of a row, and whether its column is the true one."""

import numpy as np
import pytest

from sklearn_calib._core.confidence import top_label, top_label_hits
from sklearn_calib._core.validation import FEW_COLUMNS

few_and_many = pytest.mark.parametrize(
    "n_classes", [2, FEW_COLUMNS, FEW_COLUMNS + 1, 300]
)


@few_and_many
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_is_argmax(n_classes, dtype):
    """The first column on ties, whichever way the maximum is found."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 3, size=(5000, n_classes)) + np.eye(n_classes)[0]
    proba = (counts / counts.sum(axis=1, keepdims=True)).astype(dtype)
    codes = rng.integers(n_classes, size=len(proba))

    confidence, predicted = top_label(proba)
    np.testing.assert_array_equal(predicted, proba.argmax(axis=1))
    np.testing.assert_array_equal(confidence, proba.max(axis=1))
    assert confidence.dtype == dtype

    confidence, hit = top_label_hits(proba, codes)
    np.testing.assert_array_equal(confidence, proba.max(axis=1))
    np.testing.assert_array_equal(hit, proba.argmax(axis=1) == codes)


@few_and_many
def test_without_ties(n_classes):
    proba = np.random.default_rng(1).dirichlet(np.ones(n_classes), size=3000)
    codes = np.arange(len(proba)) % n_classes
    confidence, hit = top_label_hits(proba, codes)
    np.testing.assert_array_equal(confidence, proba.max(axis=1))
    np.testing.assert_array_equal(hit, proba.argmax(axis=1) == codes)


def test_hits_are_of_checked_probabilities():
    with pytest.raises(ValueError, match="must be finite"):
        top_label_hits(np.array([[np.nan, 0.5]]), np.array([0]))
