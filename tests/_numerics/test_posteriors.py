"""Probabilities from logits, without overflow, and posteriors from probabilities."""

from functools import cache, partial

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import logit

from sklearn_calib._expressions.rows import log_odds, log_odds_of_proba
from sklearn_calib._numerics.posteriors import (
    focal_calibration_posterior,
    focal_posterior,
    inverse_focal_posterior,
)
from sklearn_calib._numerics.softmax import log_softmax, softmax

POSTERIORS = {
    **{
        f"focal-{gamma:g}": partial(focal_posterior, gamma=gamma)
        for gamma in (0, 0.5, 1, 3, 100)
    },
    **{
        f"inverse-focal-{gamma:g}": partial(inverse_focal_posterior, gamma=gamma)
        for gamma in (0, 0.5, 1)
    },
    **{
        f"focal-calibration-{gamma:g}-{lambd:g}-{norm}-{gamma_cal}": partial(
            focal_calibration_posterior,
            gamma=gamma,
            lambd=lambd,
            norm=norm,
            gamma_cal=gamma_cal,
        )
        for gamma in (0, 0.5, 3)
        for lambd in (0, 1e-3, 2)
        for norm in ("l1", "l2")
        for gamma_cal in (None, 0.5)
    },
}
all_posteriors = pytest.mark.parametrize(
    "posterior", POSTERIORS.values(), ids=POSTERIORS
)


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


def test_log_odds_at_the_extremes():
    logits = np.array([[800.0, 0, -800], [1e4, 1e4, 0], [0, 0, 0]])
    expected = [[800, -800, -1600], [0, 0, -1e4 - np.log(2)], [-np.log(2)] * 3]
    np.testing.assert_allclose(log_odds(logits), expected, atol=1e-12)
    p = softmax(np.array([[0.3, -1.0, 2.0]]))
    np.testing.assert_allclose(log_odds(np.log(p)), logit(p))


def test_known_values():
    # exp(z) / sum(exp(z)) and its logarithm, from the decimal module with 40 digits.
    proba = [0.042010066134066051, 0.11419519938459448, 0.84379473448133947]
    log_proba = [-3.1698460195562856, -2.1698460195562856, -0.16984601955628565]
    logits = np.array([[1.0, 2.0, 4.0]])
    np.testing.assert_allclose(softmax(logits)[0], proba, rtol=1e-14)
    np.testing.assert_allclose(log_softmax(logits)[0], log_proba, rtol=1e-14)


@pytest.mark.parametrize(
    ("posterior", "middle", "end"),
    [
        # mpmath with 60 digits, at (0.6, 0.3, 0.1), and the last two entries at
        # (1 - 1e-17, 0.7e-17, 0.3e-17).
        (
            partial(focal_posterior, gamma=0.5),
            [0.644409261503050917, 0.267789620595315535, 0.0878011179016335482],
            [3.32039154317679788e-26, 1.42302494707577063e-26],
        ),
        (
            partial(focal_posterior, gamma=3),
            [0.871011285871337213, 0.105203699578004078, 0.023785014550658709],
            [2.79999999999999775e-68, 1.19999999999999958e-68],
        ),
        (
            partial(focal_posterior, gamma=10),
            [0.997275347997475748, 0.00260297235763100708, 0.000121679644893244978],
            [7.69999999999997929e-187, 3.29999999999999612e-187],
        ),
        (
            partial(inverse_focal_posterior, gamma=0.5),
            [0.560069539941676088, 0.326235293418366784, 0.113695166639957129],
            [9.89949493661166659e-18, 4.24264068711928536e-18],
        ),
        (
            partial(inverse_focal_posterior, gamma=1),
            [0.516321083524773682, 0.355697649043564041, 0.127981267431662276],
            [1.40000000000000035e-17, 6.00000000000000059e-18],
        ),
        (
            partial(focal_calibration_posterior, gamma=2, lambd=1),
            [0.699673765522776273, 0.23912037556503269, 0.0612058589121910365],
            [2.37999999999999866e-34, 7.79999999999999801e-35],
        ),
        (
            partial(focal_calibration_posterior, gamma=2, lambd=1, norm="l1"),
            [0.591436628287044872, 0.297484045327067953, 0.111079326385887176],
            [1.3999999999999992e-17, 5.99999999999999843e-18],
        ),
        (
            partial(focal_calibration_posterior, gamma=2, lambd=1, gamma_cal=2),
            [0.805787822875334708, 0.153468671829867925, 0.0407435052947973666],
            [2.09999999999999883e-51, 8.99999999999999778e-52],
        ),
        (
            partial(
                focal_calibration_posterior,
                gamma=3,
                lambd=0.5,
                norm="l1",
                gamma_cal=0.5,
            ),
            [0.749822535403771209, 0.19682586308886787, 0.0533516015073609216],
            [2.21359436211786373e-26, 9.48683298050513461e-27],
        ),
    ],
)
def test_known_posteriors(posterior, middle, end):
    proba = np.array([[0.6, 0.3, 0.1], [1 - 1e-17, 0.7e-17, 0.3e-17]])
    values = posterior(proba)
    np.testing.assert_allclose(values[0], middle, rtol=1e-13)
    assert values[1, 0] == 1
    np.testing.assert_allclose(values[1, 1:], end, rtol=1e-12)


@all_posteriors
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_posteriors_at_the_corners(posterior, dtype):
    """Zeros, ones and ties are preserved; values near them do not overflow."""
    tiny = np.finfo(dtype).tiny
    proba = np.array(
        [[1, 0, 0], [0, 1, 0], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3], [1, tiny, tiny]],
        dtype=dtype,
    )
    before = proba.copy()
    values = posterior(proba)
    np.testing.assert_array_equal(proba, before)
    assert values.dtype == dtype
    np.testing.assert_array_equal(values[:2], proba[:2])
    np.testing.assert_allclose(values[2:4], proba[2:4], rtol=1e-6)
    assert values[2, 2] == 0
    assert values[4, 0] == 1
    assert (values[4, 1:] < 10 * tiny).all()


@cache
def drawn_proba():
    """Draw probabilities of any scale with ties, once for all posteriors."""
    drawn = []

    @given(
        counts=hnp.arrays(int, (2, 5), elements=st.integers(0, 9)),
        scale=st.sampled_from([1e-12, 1e-3, 1.0]),
    )
    def draw(counts, scale):
        counts[:, 0] += counts.sum(axis=1) == 0
        parts = np.where(counts == counts.max(axis=1, keepdims=True), 1, scale) * counts
        drawn.append(parts / parts.sum(axis=1, keepdims=True))

    draw()
    return np.concatenate(drawn)


@all_posteriors
def test_posteriors_keep_the_order(posterior):
    proba = drawn_proba()
    values = posterior(proba)
    np.testing.assert_allclose(values.sum(axis=1), 1, rtol=1e-14)
    order = np.argsort(proba, axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    steps = np.diff(ordered, axis=1)
    assert (steps > -1e-15).all()
    # Not even by rounding, so that the first of equals is the prediction before and
    # after.
    tied = np.diff(np.take_along_axis(proba, order, axis=1), axis=1) == 0
    assert (steps[tied] == 0).all()


@all_posteriors
def test_posteriors_of_rows_that_sum_to_one_roughly(posterior):
    """Rows of rounded probabilities do not sum to one; their scale is ignored."""
    proba = np.random.default_rng(0).dirichlet(np.ones(4), size=20)
    np.testing.assert_allclose(posterior(1.0003 * proba), posterior(proba), rtol=1e-9)


@pytest.mark.parametrize(
    "posterior",
    [
        partial(focal_posterior, gamma=0),
        partial(inverse_focal_posterior, gamma=0),
        partial(focal_calibration_posterior, gamma=0, lambd=2),
        partial(focal_calibration_posterior, gamma=3, lambd=1e12),
    ],
)
def test_proper_losses_need_no_map(posterior):
    """Cross-entropy, with or without the Brier loss, and nothing but the Brier loss."""
    proba = np.random.default_rng(0).dirichlet(np.ones(4), size=20)
    np.testing.assert_allclose(posterior(proba), proba, rtol=1e-9)


def test_log_odds_of_equal_probabilities_are_equal_with_any_zeros():
    zero = 0.01
    proba = np.array(
        [[0.75, 0.25, 0, 0, 0], [0.25, 0.25, 0.25, 0.25, 0], [0.2, 0.2, 0.2, 0.2, 0.2]]
    )
    odds = log_odds_of_proba(np.log(np.where(proba > 0, proba, zero)), zero)
    np.testing.assert_allclose(odds[0, :2], [np.log(3), -np.log(3)])
    assert np.unique(odds[proba == 0.25]).size == 1
    np.testing.assert_allclose(odds[proba == 0], np.log(zero / (1 - zero)))


@pytest.mark.parametrize("small", [1e-12, 1e-40])
def test_log_odds_of_a_probability_that_rounds_to_one(small):
    log_proba = np.log([[small, 1.0, small]])
    odds = log_odds_of_proba(log_proba, 2.2e-16)
    np.testing.assert_allclose(odds[0, 1], -np.log(max(2 * small, 2.2e-16)))
    np.testing.assert_allclose(odds[0, 0], np.log(small))
