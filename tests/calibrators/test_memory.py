"""Memory of calibrators, which do not copy the predictions, and results of the same.

The memory is what numpy allocates at the same time, as a multiple of the predictions.
`benchmarks/memory/bench_memory.py` measures the memory of the process.
"""

import numpy as np
import pytest
from scipy.optimize import isotonic_regression
from scipy.special import softmax

from sklearn_calib.calibrators import (
    JointIsotonicCalibration,
    VennAbers,
    get_calibrator,
)

# Largest memory of `fit`, as a multiple of the predictions, and their shape.
# With fewer samples, blocks are larger than the predictions. Some arrays have a few
# numbers for each sample, which is much for 100 classes in single precision: scores of
# 8 classes are 0.16 of the predictions.
FIT = {
    # A map contains the steps of many histograms.
    "bbq": (3.0, (7000, 50)),
    "beta": (1.0, (5000, 100)),
    "histogram": (0.8, (5000, 100)),
    "isotonic": (0.8, (5000, 100)),
    "joint_isotonic": (1.5, (7500, 100)),
    "meta_cal": (0.5, (5000, 100)),
    "platt": (0.8, (6000, 100)),
    "spline": (1.2, (5000, 100)),
    # The curve has 20 basis functions at up to 8192 values.
    "top_label": (1.6, (5000, 100)),
}


pytestmark = [
    pytest.mark.filterwarnings("ignore:.* misclassified samples:UserWarning"),
    pytest.mark.filterwarnings("ignore:y contains no samples of:UserWarning"),
]


@pytest.fixture(scope="module")
def problem():
    """Return logits of 100 classes in single precision, and labels."""
    rng = np.random.default_rng(0)
    logits = 3 * rng.standard_normal((10_000, 100), dtype=np.float32)
    return logits, (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)


@pytest.mark.parametrize("name", FIT)
@pytest.mark.usefixtures("nothing_kept")
def test_fit_does_not_copy_the_predictions(name, problem, peak_memory):
    most, (n_samples, n_classes) = FIT[name]
    logits, y = (array[:n_samples] for array in problem)
    logits, y = np.ascontiguousarray(logits[:, :n_classes]), y % n_classes
    calibrator = get_calibrator(name)(from_logits=True)
    assert peak_memory(lambda: calibrator.fit(logits, y)) < most * logits.nbytes


@pytest.mark.parametrize(
    "name", ["histogram", "joint_isotonic", "platt", "spline", "top_label"]
)
def test_predict_proba_needs_little_more_than_its_result(name, problem, peak_memory):
    logits, y = (array[:6000] for array in problem)
    calibrator = get_calibrator(name)(from_logits=True)
    calibrator.fit(logits[:300], y[:300], labels=range(100))
    # A block of rows and its intermediate results have about 3 MiB.
    limit = 1.2 * logits.nbytes + 3 * 2**20
    assert peak_memory(lambda: calibrator.predict_proba(logits)) < limit


def test_intervals_of_blocks_of_rows(problem, peak_memory):
    """Those of all rows are those of single rows, without more memory."""
    logits, y = problem
    calibrator = VennAbers(from_logits=True)
    calibrator.fit(logits[:300], y[:300], labels=range(100))
    intervals = calibrator.predict_interval(logits[:2000])
    assert intervals.shape == (2000, 100, 2)
    for row in (0, 700, 1999):
        one = calibrator.predict_interval(logits[row : row + 1])
        np.testing.assert_array_equal(intervals[row], one[0])
    used = peak_memory(lambda: calibrator.predict_interval(logits[:2000]))
    assert used < 1.2 * intervals.nbytes + 3 * 2**20


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3, 20])
def test_joint_isotonic_regression_of_all_pairs(n_classes, is_weighted):
    """The points found from true classes are those of the regression on all pairs."""
    rng = np.random.default_rng(n_classes)
    logits = np.tile(2 * rng.standard_normal((800, n_classes)), (2, 1))
    y = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    weight = rng.integers(0, 3, 1600) * rng.random(1600) if is_weighted else None
    fitted = JointIsotonicCalibration(from_logits=True).fit(logits, y, weight)
    mass = np.ones(1600) if weight is None else weight
    pairs = softmax(logits, axis=1)[mass > 0].ravel()
    target = (y[:, None] == np.arange(n_classes))[mass > 0].ravel()
    mass = mass[mass > 0].repeat(n_classes)
    value, group = np.unique(pairs, return_inverse=True)
    sums = np.bincount(group, mass)
    plain = isotonic_regression(np.bincount(group, mass * target) / sums, weights=sums)
    np.testing.assert_allclose(np.interp(value, *fitted.map_), plain.x, atol=1e-12)
    np.testing.assert_array_equal(fitted.map_[0][[0, -1]], value[[0, -1]])
