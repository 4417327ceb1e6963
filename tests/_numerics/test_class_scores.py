"""Scores of groups of classes from blocks of rows."""

import numpy as np
import pytest
from scipy.special import expit, softmax

from sklearn_calib._numerics.class_scores import (
    EXPONENTIAL,
    LOG_ODDS,
    SOFTMAX,
    log_odds_from_proba,
)
from sklearn_calib._numerics.sample_blocks import Block, Blocks, array_blocks
from sklearn_calib._numerics.softmax import lift_zeros

ZERO = 1e-6
KINDS = {
    "softmax": SOFTMAX,
    "exponential": EXPONENTIAL,
    "log-odds": LOG_ODDS,
    "log-odds of probabilities": log_odds_from_proba(ZERO),
}


def make_logits(kind, dtype, order):
    """Return logits or log-probabilities, some with ties, zeros or saturated rows."""
    logits = 5 * np.random.default_rng(0).standard_normal((60, 7))
    logits[0], logits[1, 3], logits[2] = 0.0, 800.0, [3, 3, 1, 0, -900, -900, 2]
    if "proba" in kind or kind == "exponential":
        logits = np.log(lift_zeros(softmax(logits, axis=1), ZERO))
    return logits.astype(dtype, order=order)


def plain(kind, logits):
    """Return the scores by their definition, with 1 - p as the sum of the others."""
    proba = np.exp(logits.astype(np.longdouble) - logits.max(axis=1, keepdims=True))
    if kind == "exponential":
        return np.exp(logits)
    proba /= proba.sum(axis=1, keepdims=True)
    if kind == "softmax":
        return proba
    others = [np.delete(proba, k, axis=1).sum(axis=1) for k in range(proba.shape[1])]
    return np.log(proba) - np.log(np.column_stack(others))


def blocks_of(logits, step):
    """Return blocks of `step` rows."""
    codes, ones = np.zeros(len(logits), dtype=int), np.ones(len(logits))
    parts = [slice(start, start + step) for start in range(0, len(logits), step)]
    whole = array_blocks(logits, codes)
    cut = [Block(logits[part], codes[part], ones[part]) for part in parts]
    return Blocks(cut.__iter__, whole.sizes, whole.counts)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_groups_of_classes_equal_all_classes(kind, dtype, order):
    """Bit for bit, for blocks and groups of any size."""
    scores, logits = KINDS[kind], make_logits(kind, dtype, order)
    whole = scores.of_all(logits)
    assert whole.dtype == np.float64
    for step, size in [(60, 7), (16, 3), (1, 1)]:
        data = blocks_of(logits, step)
        summary = data.collect(lambda block: scores.summarise_block(block.logits))
        for first in range(0, 7, size):
            classes = slice(first, min(first + size, 7))
            some = scores.of_classes(data, summary, classes)
            np.testing.assert_array_equal(some, whole[classes])


@pytest.mark.parametrize("kind", ["softmax", "exponential", "log-odds"])
def test_scores_equal_their_definition(kind):
    logits = make_logits(kind, np.float64, "C")
    ours = KINDS[kind].of_all(logits).T
    np.testing.assert_allclose(ours, plain(kind, logits).astype(float), rtol=1e-12)


def test_log_odds_of_a_saturated_row():
    """The log-odds of the predicted class do not overflow with exp(-900)."""
    logits = np.array([[900.0, 0.0, 0.0], [1.0, 2.0, 3.0]])
    odds = LOG_ODDS.of_all(logits).T
    np.testing.assert_allclose(odds[0], [900 - np.log(2), -900, -900])
    np.testing.assert_allclose(expit(odds[1]), softmax(logits[1]), rtol=1e-14)
