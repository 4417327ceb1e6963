"""Values, bias and tests of the kernel calibration error."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.spatial.distance import pdist

import sklearn_calib.metrics._calibration_errors.kernel_error as module
import sklearn_calib.metrics._hypothesis_tests.kernel_significance as module_of_test
from sklearn_calib.metrics import kernel_calibration_error, kernel_calibration_test


def draw(seed, n_samples=30, n_classes=3, power=1.0):
    """Draw probabilities, and labels from a power of the probabilities."""
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.ones(n_classes), size=n_samples)
    truth = proba**power / (proba**power).sum(axis=1, keepdims=True)
    uniform = rng.uniform(size=(n_samples, 1))
    return (uniform >= truth.cumsum(axis=1)[:, :-1]).sum(axis=1), proba


def direct_sum(codes, proba, kernel, pairs):
    """Return the mean over the pairs by a loop."""
    values = []
    for i, j in pairs:
        one, other = -proba[i], -proba[j]
        one[codes[i]] += 1
        other[codes[j]] += 1
        values.append(kernel(np.linalg.norm(proba[i] - proba[j])) * (one @ other))
    return np.mean(values)


def all_pairs(n_samples, *, itself):
    """Return all pairs of indices."""
    every = range(n_samples)
    return [(i, j) for i in every for j in every if itself or i != j]


KERNELS = {
    "laplacian": lambda d: np.exp(-d / 0.3),
    "gaussian": lambda d: np.exp(-((d / 0.3) ** 2) / 2),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("tile", [7, 1024])
def test_sums_of_the_definition(kernel, tile, monkeypatch):
    monkeypatch.setattr(module, "TILE", tile)
    codes, proba = draw(0)

    def measure(**options):
        options |= {"kernel": kernel, "bandwidth": 0.3, "labels": range(3)}
        return kernel_calibration_error(codes, proba, squared=True, **options)

    def expected(pairs):
        return direct_sum(codes, proba, KERNELS[kernel], pairs)

    biased, unbiased = (all_pairs(30, itself=itself) for itself in (True, False))
    in_twos = [(i, i + 1) for i in range(0, 30, 2)]
    in_sevens = [(i, j) for i, j in unbiased if i // 7 == j // 7 < 4]
    assert measure() == pytest.approx(expected(biased), rel=1e-10)
    assert measure(reduce_bias=True) == pytest.approx(expected(unbiased), rel=1e-10)
    for size, pairs in {2: in_twos, 7: in_sevens}.items():
        value = measure(reduce_bias=True, block_size=size)
        assert value == pytest.approx(expected(pairs), rel=1e-10)


def test_default_bandwidth_is_the_median_of_distinct_predictions():
    codes, proba = draw(0, n_samples=20)
    twice = np.concatenate([proba, proba[:12]])
    measured = kernel_calibration_error(
        np.concatenate([codes, codes[:12]]), twice, labels=range(3)
    )
    given_one = kernel_calibration_error(
        np.concatenate([codes, codes[:12]]), twice, labels=range(3),
        bandwidth=np.median(pdist(proba)),
    )  # fmt: skip
    assert measured == pytest.approx(given_one, rel=1e-12)


def test_median_of_many_predictions():
    """A thousand predictions represent all, for any order of samples and classes."""
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(4), size=5000)
    median = module._median_distance(proba)
    assert median == module._median_distance(proba[rng.permutation(5000)])
    assert median == module._median_distance(proba[:, [2, 0, 3, 1]])
    assert median == pytest.approx(np.median(pdist(proba[:1500])), rel=0.05)


def test_unbiased():
    """The mean of many small samples is that of the population, 0 if calibrated."""
    options = {"bandwidth": 0.3, "labels": range(3), "reduce_bias": True}

    def mean(power, **more):
        values = [
            kernel_calibration_error(
                *draw(seed, 10, power=power), squared=True, **options, **more
            )
            for seed in range(100)
        ]
        return np.mean(values), np.std(values) / np.sqrt(100)

    large = kernel_calibration_error(*draw(0, 1500, power=3), squared=True, **options)
    for power, truth in {1: 0.0, 3: large}.items():
        for block_size in (None, 2):
            value, error = mean(power, block_size=block_size)
            assert value == pytest.approx(truth, abs=4 * error)
    assert large > 0.005


@given(seed=st.integers(0, 1000))
def test_weights_are_repetitions_without_bias(seed):
    codes, proba = draw(seed, n_samples=8)
    times = np.random.default_rng(seed).integers(0, 4, size=8) + (np.arange(8) < 2)
    options = {"labels": range(3), "reduce_bias": True, "squared": True}
    weighted = kernel_calibration_error(codes, proba, sample_weight=times, **options)
    repeated = kernel_calibration_error(
        codes.repeat(times), proba.repeat(times, axis=0), **options
    )
    assert weighted == pytest.approx(repeated, abs=1e-12)


def test_root_of_a_negative_square_is_zero():
    codes, proba = draw(3, n_samples=300)
    square = kernel_calibration_error(codes, proba, reduce_bias=True, squared=True)
    assert square < 0
    assert kernel_calibration_error(codes, proba, reduce_bias=True) == 0


@pytest.mark.parametrize("method", ["consistency", "bootstrap"])
def test_null_distribution_is_that_of_the_draws(method, monkeypatch):
    """The labels or signs are drawn in the test."""
    monkeypatch.setattr(module, "TILE", 16)
    monkeypatch.setattr(module_of_test, "DRAWN", 30 * 3 * 4)
    codes, proba = draw(0)
    test = kernel_calibration_test(
        codes, proba, method=method, n_resamples=1500, random_state=0, bandwidth=0.3
    )
    assert test.statistic == kernel_calibration_error(
        codes, proba, reduce_bias=True, squared=True, bandwidth=0.3
    )
    assert test.null_distribution.shape == (1500,)
    k = np.exp(-np.linalg.norm(proba[:, None] - proba, axis=2) / 0.3)
    residual = np.eye(3)[codes] - proba
    if method == "bootstrap":
        variance = (k * (residual @ residual.T)) ** 2
    else:
        covariance = np.eye(3) * proba[:, :, None] - proba[:, :, None] * proba[:, None]
        variance = k**2 * np.einsum("iab,jab->ij", covariance, covariance)
    np.fill_diagonal(variance, 0)
    std = np.sqrt(2 * variance.sum()) / (30 * 29)
    assert test.null_distribution.std() == pytest.approx(std, rel=0.1)
    assert abs(test.null_distribution.mean()) < 4 * std / np.sqrt(1500)


def test_bootstrap_of_a_rare_class_draws_labels():
    """Residuals of the same sign are not evidence: the rare class is absent here."""
    proba = np.random.default_rng(0).beta(1, 99, size=100)
    draws = {"n_resamples": 99, "random_state": 0, "labels": [0, 1]}
    tests = [
        kernel_calibration_test(np.zeros(100), proba, method=method, **draws)
        for method in ("consistency", "bootstrap")
    ]
    assert tests[0].pvalue == tests[1].pvalue > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("method", ["bootstrap", "asymptotic"])
@pytest.mark.parametrize("n_samples", [30, 100, 1000])
def test_level_for_a_rare_class(method, n_samples):
    """The level is 0.05, up to three standard errors; random signs have 0.38."""
    rng, rejected = np.random.default_rng(0), 0
    for _ in range(100):
        proba = rng.beta(1, 99, size=n_samples)
        rejected += kernel_calibration_test(
            rng.uniform(size=n_samples) < proba, proba, labels=[False, True],
            method=method, n_resamples=19, random_state=rng.integers(2**31),
        ).pvalue <= 0.05  # fmt: skip
    assert rejected <= 100 * 0.05 + 3 * np.sqrt(100 * 0.05 * 0.95)


def test_asymptotic_is_a_test_of_the_mean_of_blocks():
    codes, proba = draw(0, n_samples=41)
    laplacian = KERNELS["laplacian"]
    values = [
        direct_sum(codes, proba, laplacian, [(i, i + 1)]) for i in range(0, 40, 2)
    ]
    test = kernel_calibration_test(codes, proba, method="asymptotic", bandwidth=0.3)
    z = np.mean(values) / np.std(values, ddof=1) * np.sqrt(20)
    assert test.statistic == pytest.approx(z, rel=1e-10)


def test_perfect_predictions():
    codes, draws = np.arange(12) % 3, {"n_resamples": 99, "random_state": 0}
    for method in ("consistency", "bootstrap", "asymptotic"):
        test = kernel_calibration_test(codes, np.eye(3)[codes], method=method, **draws)
        assert test.statistic == 0
        assert test.pvalue >= 0.5
    wrong = kernel_calibration_test(codes, np.eye(3)[(codes + 1) % 3], **draws)
    assert wrong.pvalue == 1 / 100


def test_constant_predictions():
    """All distances are zero, and the kernel is 1."""
    error = kernel_calibration_error([0, 1, 1, 1], [0.5] * 4, squared=True)
    assert error == pytest.approx(2 * 0.25**2)


@pytest.mark.parametrize("bandwidth", [5e-324, 1e-160, 1e160])
def test_bandwidths_whose_squares_are_not_numbers_are_refused(bandwidth):
    for function in (kernel_calibration_error, kernel_calibration_test):
        with pytest.raises(ValueError, match="'bandwidth' parameter"):
            function(*draw(0), bandwidth=bandwidth, kernel="gaussian")


def test_refused():
    codes, proba = draw(0)
    with pytest.raises(ValueError, match=r"block_size must be None unless .*got 2"):
        kernel_calibration_error(codes, proba, block_size=2)
    with pytest.raises(ValueError, match="got 2 and sample_weight"):
        kernel_calibration_error(
            codes, proba, block_size=2, reduce_bias=True, sample_weight=np.ones(30)
        )
    with pytest.raises(ValueError, match=r"at least 1 full .* got 31 for 30 samples"):
        kernel_calibration_error(codes, proba, block_size=31, reduce_bias=True)
    with pytest.raises(ValueError, match=r"at least 2 full .* got 16 for 30 samples"):
        kernel_calibration_test(codes, proba, method="asymptotic", block_size=16)
    with pytest.raises(ValueError, match=r"more than one sample .* weight of 1\."):
        kernel_calibration_error([1], [0.5], labels=[0, 1], reduce_bias=True)
