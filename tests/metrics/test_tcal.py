"""T-Cal: estimates of the authors' code, the definition, levels, and edge cases."""

from itertools import product

import numpy as np
import pytest

import sklearn_calib.metrics._hypothesis_tests.tcal as module
from sklearn_calib.metrics import tcal_test


def draw(seed, n_samples=30, n_classes=3, power=1.0):
    """Draw labels, and probabilities whose powers are the true probabilities."""
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.ones(n_classes), size=n_samples)
    truth = proba**power / (proba**power).sum(axis=1, keepdims=True)
    uniform = rng.uniform(size=(n_samples, 1))
    return (uniform >= truth.cumsum(axis=1)[:, :-1]).sum(axis=1), proba


def pairs_of(values, number):
    """Return 1 / size for each pair of samples in the same bin, by a loop."""
    cells = [tuple(row) for row in np.maximum(np.ceil(values * number) - 1, 0)]
    same = np.array([[float(a == b) for b in cells] for a in cells])
    share = same / same.sum(axis=1)
    np.fill_diagonal(share, 0)
    return share


def estimates(codes, proba, number):
    """Return the estimate and its standard deviation under the null hypothesis."""
    n_samples, n_classes = proba.shape
    residual = np.eye(n_classes)[codes] - proba
    covariance = np.eye(n_classes) * proba[:, :, None]
    covariance = covariance - proba[:, :, None] * proba[:, None]
    share = pairs_of(proba, number)
    variance = 2 * np.einsum("ij,iab,jab->", share**2, covariance, covariance)
    estimate = np.einsum("ij,ia,ja->", share, residual, residual)
    return estimate / n_samples, np.sqrt(variance) / n_samples


def test_estimates_of_the_authors(reference):
    recorded, best = reference("metric_tcal"), {}
    for case in recorded["expected"]:
        p, y = map(np.array, recorded["inputs"][case["input"]].values())
        ratios = {}
        for number, expected in case["values"].items():
            share, v = pairs_of(p[:, None], int(number)), p * (1 - p)
            estimate = share @ (y - p) @ (y - p) / len(p)
            assert estimate == pytest.approx(expected, rel=1e-9, abs=1e-15)
            std = np.sqrt(2 * (share**2 @ v @ v)) / len(p)
            ratios[int(number)] = expected / std if std > 0 else 0
        result = tcal_test(y, p, random_state=0, n_resamples=9)
        assert result.statistic == pytest.approx(max(ratios.values()), rel=1e-9)
        best[case["id"]] = max(ratios, key=ratios.get)
    assert best == {"smooth": 2, "wave": 16}


@pytest.mark.parametrize("n_classes", [3, 4, 6])
@pytest.mark.parametrize("seed", [0, 1])
def test_definition_for_several_classes(n_classes, seed):
    """The bins are cubes, of which there are fewer sizes for more classes."""
    codes, proba = draw(seed, n_samples=60, n_classes=n_classes, power=2.0)
    n_scales = int(2 / (n_classes - 1) * np.log2(60 / np.sqrt(np.log(60))))
    numbers = [2**k for k in range(1, max(1, n_scales) + 1)]
    found = [estimates(codes, proba, number) for number in numbers]
    expected = max(estimate / std for estimate, std in found if std > 0)
    result = tcal_test(codes, proba, n_resamples=9, labels=range(n_classes))
    assert result.statistic == pytest.approx(expected, rel=1e-9)


def test_definition_for_more_classes_than_samples():
    codes, proba = draw(0, n_samples=12, n_classes=20, power=2.0)
    # The products of two covariances of saturated rows are 1e-18 and less.
    proba[:4] = np.where(np.arange(20) == 0, 1 - 19e-9, 1e-9)
    estimate, std = estimates(codes, proba, 2)
    result = tcal_test(codes, proba, n_resamples=9, labels=range(20))
    assert result.statistic == pytest.approx(estimate / std, rel=1e-9)
    values = proba[:4]
    found = module._null_variances(values, [np.array([0])])
    covariance = np.eye(20) * values[0] - np.outer(values[0], values[0])
    expected = 2 * (12 / 16) * np.sum(covariance**2) / 4**2
    np.testing.assert_allclose(found, [expected], rtol=1e-7)


def test_the_cost_of_many_classes_is_linear():
    """Products of the covariances of all classes would take minutes."""
    proba = np.random.default_rng(0).dirichlet(np.ones(30_000), size=4)
    labels = range(30_000)
    assert tcal_test([0, 1, 2, 3], proba, labels=labels, n_resamples=1).pvalue > 0


def test_estimates_are_unbiased_for_all_possible_labels(monkeypatch):
    """Over all labels, each estimate has the mean 0 and the variance of the formula."""
    proba = np.array([[0.2, 0.3, 0.5], [0.3, 0.3, 0.4], [0.1, 0.1, 0.8], [0, 0.2, 0.8]])
    monkeypatch.setattr(module, "_largest", lambda estimates, _: estimates[0])
    chance, values = [], []
    for codes in product(range(3), repeat=4):
        chance.append(proba[range(4), codes].prod())
        result = tcal_test(np.array(codes), proba, labels=range(3), n_resamples=1)
        values.append(result.statistic)
    _, std = estimates(np.zeros(4, int), proba, 2)
    mean = np.dot(chance, values)
    assert mean == pytest.approx(0, abs=1e-15)
    assert np.dot(chance, np.square(values)) == pytest.approx(std**2, rel=1e-12)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("block", [1, 1000, 2**20])
def test_null_distribution_is_that_of_drawn_labels(n_classes, block, monkeypatch):
    """Drawing in blocks does not change the draws."""
    monkeypatch.setattr(module, "DRAWN", block)
    codes, proba = draw(0, n_classes=n_classes)
    result = tcal_test(codes, proba, n_resamples=20, random_state=0)
    assert result.null_distribution.shape == (20,)
    again = tcal_test(codes, proba, n_resamples=60, random_state=0)
    np.testing.assert_allclose(again[2][:20], result[2], rtol=1e-9, atol=1e-12)
    count = (again[2] >= again.statistic).sum()
    assert again.pvalue == (1 + count) / 61


def test_errors_that_cancel_in_wide_bins_are_detected():
    """With two bins of equal width, the error cancels."""
    rng = np.random.default_rng(0)
    p = rng.uniform(size=2000)
    truth = np.clip(p + 0.2 * np.sign(np.sin(16 * np.pi * p)), 0, 1)
    y = rng.uniform(size=2000) < truth
    assert tcal_test(y, p, n_resamples=199, random_state=0).pvalue == 1 / 200


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_labels_and_formats(power):
    """Names of classes, one column, and the order of samples."""
    codes, proba = draw(3, n_samples=80, n_classes=2, power=power)
    options = {"n_resamples": 99, "random_state": 0}
    expected = tcal_test(codes, proba, **options)
    assert tcal_test(codes, proba[:, 1], **options)[:2] == pytest.approx(expected[:2])
    names = np.array(["no", "yes"])
    assert tcal_test(names[codes], proba, **options)[:2] == expected[:2]
    order = np.random.default_rng(0).permutation(80)
    moved = tcal_test(codes[order], proba[order], **options)
    assert moved.statistic == pytest.approx(expected.statistic, rel=1e-9)


def test_without_two_samples_in_a_bin():
    """Nothing is estimated, and the p-value is 1."""
    for p in ([0.3], [0.2, 0.9]):
        y = np.zeros(len(p), int)
        result = tcal_test(y, p, labels=[0, 1], n_resamples=50, random_state=0)
        assert result[:2] == (0, 1)
        assert result.null_distribution.shape == (50,)


def test_certain_predictions():
    codes, draws = np.arange(12) % 3, {"n_resamples": 99, "random_state": 0}
    right = tcal_test(codes, np.eye(3)[codes], **draws)
    assert right[:2] == (0, 1)
    wrong = tcal_test(codes, np.eye(3)[(codes + 1) % 3], **draws)
    assert wrong[:2] == (np.inf, 1 / 100)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["uniform", "rare", "sharp", "rounded", "three"])
def test_level(kind):
    """At most 0.05 of 500 data sets are rejected, up to three standard errors."""
    rng, rejected = np.random.default_rng(0), 0
    for _ in range(500):
        if kind == "three":
            codes, p = draw(rng.integers(2**31), n_samples=200)
        else:
            p = {
                "uniform": rng.uniform(size=200),
                "rare": rng.beta(1, 99, size=200),
                "sharp": rng.beta(0.2, 0.2, size=200),
                "rounded": rng.integers(1, 10, size=200) / 10,
            }[kind]
            codes = rng.uniform(size=200) < p
        rejected += tcal_test(
            codes, p, labels=range(3 if kind == "three" else 2), n_resamples=19,
            random_state=rng.integers(2**31),
        ).pvalue <= 0.05  # fmt: skip
    assert rejected <= 500 * 0.05 + 3 * np.sqrt(500 * 0.05 * 0.95)
