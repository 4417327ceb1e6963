"""Hypothesis tests of calibration: formulas, levels, power, edge cases."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import binom, chi2, norm

from sklearn_calib.metrics import (
    hosmer_lemeshow_test,
    kernel_calibration_test,
    spiegelhalter_test,
    tcal_test,
)

# The tests below use the chi-square distribution; the statistic is the same.
pytestmark = pytest.mark.filterwarnings("ignore:hosmer_lemeshow_test may reject")
asymptotic = partial(hosmer_lemeshow_test, method="asymptotic")
TESTS = {
    "asymptotic": partial(kernel_calibration_test, method="asymptotic"),
    "bootstrap": partial(
        kernel_calibration_test, method="bootstrap", n_resamples=59, random_state=0
    ),
    "consistency": partial(kernel_calibration_test, n_resamples=59, random_state=0),
    "hosmer": asymptotic,
    "hosmer-drawn": partial(hosmer_lemeshow_test, n_resamples=99, random_state=0),
    "hosmer-top-label": partial(asymptotic, mode="top_label"),
    "hosmer-uniform": partial(asymptotic, strategy="uniform", n_bins=5),
    "spiegelhalter": spiegelhalter_test,
    "spiegelhalter-top-label": partial(spiegelhalter_test, mode="top_label"),
    "tcal": partial(tcal_test, n_resamples=99, random_state=0),
    "tcal-top-label": partial(
        tcal_test, mode="top_label", n_resamples=99, random_state=0
    ),
}
all_tests = pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)


def draw(rng, n_samples=200, n_classes=3, temperature=1.0):
    """Draw calibrated probabilities, labels and temperature-scaled probabilities."""
    scores = np.exp(rng.normal(size=(n_samples, n_classes)) * 1.3)
    proba = scores / scores.sum(axis=1, keepdims=True)
    uniform = rng.uniform(size=(n_samples, 1))
    codes = (uniform >= proba.cumsum(axis=1)[:, :-1]).sum(axis=1)
    said = proba**temperature
    return codes, said / said.sum(axis=1, keepdims=True)


def rejections(test, n_draws, n_classes, temperature=1.0):
    """Return the fraction of p-values of at most 0.1."""
    rng = np.random.default_rng(0)
    draws = (draw(rng, 200, n_classes, temperature) for _ in range(n_draws))
    labels = range(n_classes)
    return np.mean([test(*pair, labels=labels).pvalue <= 0.1 for pair in draws])


@pytest.mark.slow
@all_tests
@pytest.mark.parametrize("n_classes", [2, 4])
def test_level(test, n_classes):
    """The level is 0.1, up to three standard errors."""
    assert rejections(test, 150, n_classes) == pytest.approx(0.1, abs=0.074)


@pytest.mark.parametrize("name", [name for name in TESTS if name != "asymptotic"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_power(name, n_classes):
    """Logits 2.5 times as large are detected in most data sets of 200 samples."""
    assert rejections(TESTS[name], 8, n_classes, temperature=2.5) > 0.6


def test_spiegelhalter_of_two_classes():
    codes, proba = draw(np.random.default_rng(0), n_classes=2, temperature=1.3)
    p = proba[:, 1]
    z = ((codes - p) * (1 - 2 * p)).sum()
    z /= np.sqrt(((1 - 2 * p) ** 2 * p * (1 - p)).sum())
    for given_proba in (proba, p):
        result = spiegelhalter_test(codes, given_proba)
        assert result.statistic == pytest.approx(z, rel=1e-12)
        assert result.pvalue == pytest.approx(2 * norm.sf(abs(z)), rel=1e-10)
    for side, pvalue in {"greater": norm.sf(z), "less": norm.cdf(z)}.items():
        result = spiegelhalter_test(codes, p, alternative=side)
        assert result.pvalue == pytest.approx(pvalue, rel=1e-10)


def test_spiegelhalter_is_the_standardized_brier_score():
    """Mean and variance of the weighted score are summed over the possible labels."""
    rng = np.random.default_rng(1)
    codes, proba = draw(rng, n_samples=50, temperature=1.3)
    weight = rng.uniform(size=50)
    # Of each sample, if each class were the true one.
    scores = ((np.eye(3)[None] - proba[:, None]) ** 2).sum(axis=2)
    mean = (proba * scores).sum(axis=1)
    variance = (proba * (scores - mean[:, None]) ** 2).sum(axis=1)
    z = weight @ (scores[np.arange(50), codes] - mean) / np.sqrt(weight**2 @ variance)
    result = spiegelhalter_test(codes, proba, sample_weight=weight)
    assert result.statistic == pytest.approx(z, rel=1e-12)


def test_spiegelhalter_of_saturated_predictions():
    """1 - p underflows, but p * (1 - p) does not: one in a thousand is wrong."""
    proba = np.full(1000, 1e-15)
    result = spiegelhalter_test(np.arange(1000) == 5, proba)
    assert result.statistic == pytest.approx(1 / np.sqrt(1e-12), rel=1e-6)
    assert spiegelhalter_test(np.zeros(9), proba[:9], labels=[0, 1]).pvalue > 0.9


@pytest.mark.parametrize("n_bins", [1, 4, 10])
def test_hosmer_lemeshow_of_two_classes(n_bins):
    """The bins have equal numbers of samples."""
    codes, proba = draw(np.random.default_rng(0), n_classes=2, temperature=1.3)
    p = proba[:, 1]
    for variance in ("sample", "bin"):
        expected = 0
        for rows in np.array_split(np.argsort(p), n_bins):
            mean = p[rows].mean() if variance == "bin" else p[rows]
            noise = np.broadcast_to(mean * (1 - mean), len(rows)).sum()
            expected += (codes[rows].sum() - p[rows].sum()) ** 2 / noise
        result = asymptotic(codes, p, n_bins=n_bins, variance=variance)
        assert result.statistic == pytest.approx(expected, rel=1e-10)
        assert result.pvalue == pytest.approx(chi2.sf(expected, n_bins), rel=1e-8)
        assert result.df == n_bins


def test_hosmer_lemeshow_of_many_classes():
    """The reference is the pseudo-inverse of the covariance of all counts."""
    codes, proba = draw(np.random.default_rng(0), n_classes=4, temperature=1.3)
    expected = 0
    for rows in np.array_split(np.argsort(proba.max(axis=1)), 5):
        p = proba[rows]
        deviation = np.bincount(codes[rows], minlength=4) - p.sum(axis=0)
        covariance = np.diag(p.sum(axis=0)) - p.T @ p
        expected += deviation @ np.linalg.pinv(covariance, rcond=1e-10) @ deviation
    result = hosmer_lemeshow_test(codes, proba, n_bins=5)
    assert result.statistic == pytest.approx(expected, rel=1e-8)
    assert result.df == 15


def test_hosmer_lemeshow_of_sparse_bins():
    """Equal samples in a sparse bin are binomial; dense bins are chi-square."""
    options = {"n_resamples": 4000, "random_state": 0}
    distance = np.abs(np.arange(11) - 1.5)
    for count in (0, 3, 5):
        y_true = np.arange(10) < count
        result = hosmer_lemeshow_test(
            y_true, np.full(10, 0.15), **options, labels=[0, 1]
        )
        expected = binom.pmf(np.arange(11), 10, 0.15)[distance >= distance[count]].sum()
        assert result.pvalue == pytest.approx(expected, abs=0.03)
    rng = np.random.default_rng(0)
    proba = rng.uniform(0.2, 0.8, size=1000)
    y_true = rng.uniform(size=1000) < proba
    assert hosmer_lemeshow_test(y_true, proba) == asymptotic(y_true, proba)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("options", [{"method": "asymptotic"}, {"ddof": 2}])
def test_chi_square_law_of_sparse_bins_warns(options):
    rng = np.random.default_rng(0)
    proba = rng.uniform(0.2, 0.8, size=1000)
    y_true = rng.uniform(size=1000) < proba
    assert hosmer_lemeshow_test(y_true, proba, **options).pvalue > 0.05
    with pytest.warns(UserWarning, match=r"may reject too often.* method='auto'"):
        hosmer_lemeshow_test(y_true, proba, n_bins=50, **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_samples", "n_classes", "rare"), [(100, 100, 1), (30, 2, 0.01), (300, 2, 0.01)]
)
def test_level_of_hosmer_lemeshow_in_sparse_bins(n_samples, n_classes, rare):
    """The level is 0.05, up to three standard errors; chi-square has 0.28."""
    rng, rejected = np.random.default_rng(0), 0
    for _ in range(300):
        proba = rng.dirichlet(np.r_[1, np.full(n_classes - 1, rare)], size=n_samples)
        uniform = rng.uniform(size=(n_samples, 1))
        codes = (uniform >= proba.cumsum(axis=1)[:, :-1]).sum(axis=1)
        rejected += hosmer_lemeshow_test(
            codes, proba, labels=range(n_classes), n_resamples=19,
            random_state=rng.integers(2**31),
        ).pvalue <= 0.05  # fmt: skip
    assert rejected <= 300 * 0.05 + 3 * np.sqrt(300 * 0.05 * 0.95)


def test_degrees_of_freedom():
    """Ties form one bin, classes of probability 0 do not count, ddof is subtracted."""
    codes = np.arange(20) % 2
    assert hosmer_lemeshow_test(codes, np.full(20, 0.4)).df == 1
    three = np.tile([0.3, 0.7, 0.0], (20, 1))
    assert hosmer_lemeshow_test(codes, three, labels=[0, 1, 2]).df == 1
    proba = np.linspace(0.1, 0.9, 20)
    assert hosmer_lemeshow_test(codes, proba, ddof=2).df == 8
    # Two pairs of mutually exclusive classes.
    pairs = np.repeat([[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]], 10, axis=0)
    result = hosmer_lemeshow_test(codes + 2 * (np.arange(20) > 9), pairs)
    assert result == (0.0, 1.0, 2)


@pytest.mark.parametrize("test", [spiegelhalter_test, asymptotic])
def test_zeros_and_ones(test):
    """Certain predictions do not count if correct, and are impossible if wrong."""
    certain = np.eye(3)[np.arange(9) % 3]
    assert test(np.arange(9) % 3, certain)[:2] == (0, 1)
    assert test((np.arange(9) + 1) % 3, certain)[:2] == (np.inf, 0)
    assert test([0, 1, 1], [0.0, 1.0, 1.0])[:2] == (0, 1)
    assert test([1, 1, 0, 1], [0.0, 1.0, 0.5, 0.5])[:2] == (np.inf, 0)


@pytest.mark.parametrize("test", [spiegelhalter_test, asymptotic])
@pytest.mark.parametrize("tiny", [0, 5e-324, 1e-300, 1e-100, 1e-17, 1e-10])
@pytest.mark.parametrize("options", [{}, {"mode": "top_label"}])
def test_saturated_predictions(test, tiny, options):
    """Wrong predictions are evidence, correct ones are not, for any rounding of 1 - p.

    Warnings are errors in the tests, so the result does not contain NaN.
    """
    proba = np.full((12, 3), tiny)
    proba[:, 1] = 1 - 2 * tiny
    options = {**options, "labels": range(3)}
    assert test(np.ones(12), proba, **options).pvalue > 0.99
    wrong = test(np.zeros(12), proba, **options)
    assert wrong.pvalue == 0
    assert wrong.statistic > 1e4


def test_uniform_predictions_have_no_variance():
    codes = np.arange(50) % 7
    assert spiegelhalter_test(codes, np.full((50, 7), 1 / 7)) == (0, 1)


@all_tests
def test_a_class_of_probability_zero(test):
    """A class of probability 0 that does not occur does not change the result."""
    codes, proba = draw(np.random.default_rng(0), temperature=1.5)
    more = np.column_stack([proba, np.zeros(len(proba))])
    assert test(codes, more, labels=range(4))[:2] == pytest.approx(
        test(codes, proba)[:2], abs=0.2
    )


@pytest.mark.parametrize("name", ["hosmer", "hosmer-uniform", "spiegelhalter"])
@given(seed=st.integers(0, 100))
def test_order_does_not_matter(name, seed):
    """The order of samples and classes and the labels do not matter."""
    rng = np.random.default_rng(seed)
    codes, proba = draw(rng, n_samples=40)
    proba = np.round(proba, 1)
    proba[:, 0] = 1 - proba[:, 1:].sum(axis=1)
    proba = np.clip(proba, 0, 1)
    test = partial(TESTS[name], labels=range(3))
    expected = test(codes, proba)
    rows, columns = rng.permutation(40), rng.permutation(3)
    assert test(codes[rows], proba[rows]) == pytest.approx(expected, rel=1e-9)
    moved = TESTS[name](codes, proba[:, columns], labels=columns)
    assert moved == pytest.approx(expected, rel=1e-9)
    names = np.array(["ash", "birch", "cedar"])
    assert TESTS[name](names[codes], proba, labels=names) == expected


def test_many_classes_are_refused():
    """The time is cubic in the number of classes with positive probability."""
    n_classes, rng = 3000, np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(n_classes), size=20)
    codes = rng.integers(n_classes, size=20)
    with pytest.raises(
        ValueError, match=r"fewer classes.*got 3000 classes and 10 bins"
    ):
        hosmer_lemeshow_test(codes, proba, labels=range(n_classes))
    few = np.zeros((20, n_classes))
    few[:, :3] = rng.dirichlet(np.ones(3), size=20)
    options = {"random_state": 0, "n_resamples": 99}
    result = hosmer_lemeshow_test(codes % 3, few, labels=range(n_classes), **options)
    assert result == hosmer_lemeshow_test(codes % 3, few[:, :3], **options)


def test_refused():
    codes, proba = draw(np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"ddof must be less than .* 20 .* got 20"):
        hosmer_lemeshow_test(codes, proba, ddof=20)
    with pytest.raises(ValueError, match=r'variance must be "sample".*3 classes'):
        hosmer_lemeshow_test(codes, proba, variance="bin")


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_scale_of_weights_does_not_matter(scale):
    y_true, y_proba, weight = [0, 1, 1, 0], [0.1, 0.3, 0.9, 0.8], np.arange(1, 5)
    expected = spiegelhalter_test(y_true, y_proba, sample_weight=weight)
    scaled = spiegelhalter_test(y_true, y_proba, sample_weight=weight * scale)
    assert scaled == pytest.approx(expected)
