"""Repeated samples are merged where all pairs of samples are compared."""

from functools import partial

import numpy as np
import pytest

from sklearn_calib._validation.samples import merge_repetitions
from sklearn_calib.metrics import kde_calibration_error, kernel_calibration_error

METRICS = {
    "kde": kde_calibration_error,
    "kde-canonical": partial(kde_calibration_error, mode="canonical", bandwidth=0.1),
    "kernel": kernel_calibration_error,
    "kernel-unbiased": partial(
        kernel_calibration_error, reduce_bias=True, squared=True
    ),
}


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
@pytest.mark.parametrize("weighted", [False, True])
def test_many_ties_are_few_samples(metric, weighted, monkeypatch):
    """The number of kernels is the number of pairs of distinct samples."""
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(3), size=20)[np.arange(40_000) % 20]
    codes = np.arange(40_000) // 20 % 3
    weight = rng.uniform(size=40_000) if weighted else None
    evaluated, exp = [], np.exp

    def count(values, *args, **options):
        evaluated.append(np.size(values))
        return exp(values, *args, **options)

    monkeypatch.setattr(np, "exp", count)
    value = metric(codes, proba, sample_weight=weight)
    assert sum(evaluated) < 10 * 60**2
    monkeypatch.undo()
    # The same with one sample for each row and class, which has their total weight.
    cells = codes * 20 + np.arange(40_000) % 20
    _, first = np.unique(cells, return_index=True)
    total = np.bincount(cells, weight)
    merged = metric(codes[first], proba[first], sample_weight=total)
    assert value == pytest.approx(merged, rel=1e-12)


def test_what_is_merged():
    """Rows with the same class and probabilities are merged if most rows are such."""
    proba = np.array([[0.1, 0.9], [0.1, 0.9], [0.1, 0.9], [0.1, 0.9], [0.2, 0.8]])
    codes, weight = np.array([1, 1, 1, 1, 0]), np.arange(1.0, 6.0)
    merged = merge_repetitions(proba, codes, weight)
    order = np.argsort(merged[1])
    assert [part[order].tolist() for part in merged] == [
        [[0.2, 0.8], [0.1, 0.9]], [0, 1], [5.0, 10.0],
    ]  # fmt: skip
    assert merge_repetitions(proba, codes, None)[2][order].tolist() == [1, 4]
    few = proba[2:], codes[2:], weight[2:]
    assert merge_repetitions(*few) is not few
    assert merge_repetitions(*few)[0] is few[0]
    positive = merge_repetitions(proba[:, 1], codes, None)
    assert sorted(positive[0]) == [0.8, 0.9]
