"""Fits to data in chunks: the same result, errors for bad chunks, little memory."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import clone

from sklearn_calib._validation import arrays as validation
from sklearn_calib.calibrators import (
    BBQ,
    ENIR,
    BetaCalibration,
    Calibrator,
    ClassTemperatureScaling,
    DirichletCalibrator,
    EnsembleTemperatureScaling,
    FocalPosterior,
    FocalTemperatureScaling,
    HistogramBinning,
    IsotonicCalibration,
    JointBetaCalibration,
    JointIsotonicCalibration,
    MatrixScaling,
    MetaCal,
    PlattScaling,
    QuadraticLogisticCalibration,
    ScalingBinning,
    SplineCalibration,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    TemperatureScaling,
    TopLabelCalibrator,
    VectorScaling,
    VennAbers,
    get_calibrator,
    get_calibrator_names,
)

SUMMED = [
    ClassTemperatureScaling(),
    DirichletCalibrator(),
    EnsembleTemperatureScaling(),
    EnsembleTemperatureScaling(objective="brier"),
    FocalPosterior(),
    FocalTemperatureScaling(),
    JointBetaCalibration(),
    JointBetaCalibration(penalty="none"),
    MatrixScaling(penalty="odir", lambd=0.1),
    StructuredMatrixScaling(),
    StructuredMatrixScaling(lambd=1.0),
    StructuredVectorScaling(lambd=[1.0, 0.5]),
    TemperatureScaling(),
    TemperatureScaling(objective="ece"),
    VectorScaling(),
]
ONE_VS_REST = [
    BBQ(),
    BetaCalibration(),
    ENIR(),
    HistogramBinning(strategy="quantile"),
    IsotonicCalibration(),
    PlattScaling(),
    QuadraticLogisticCalibration(),
    ScalingBinning(),
    VennAbers(),
]
SORTING = [
    *ONE_VS_REST,
    JointIsotonicCalibration(),
    MetaCal(),
    MetaCal(coverage_accuracy=0.5, threshold_fraction=0.5, random_state=0),
    SplineCalibration(),
    TemperatureScaling(objective="ece", strategy="quantile"),
    TopLabelCalibrator(),
    TopLabelCalibrator(HistogramBinning(n_bins=3), per_class=True, min_errors=1),
]
# Empty, of a single row, and with weights of zero only.
CUTS = [0, 0, 100, 101, 200]
ignore_warnings = pytest.mark.filterwarnings("ignore")


both_ways = pytest.mark.parametrize("keeping", [True, False])
of_logits = pytest.mark.parametrize(
    "from_logits", [True, pytest.param(False, marks=pytest.mark.slow)]
)


def choose(keeping, monkeypatch):
    """Keep features of small data, or compute them again in each pass."""
    if not keeping:
        for module in ("_numerics.sample_blocks", "_solvers.temperature_fit"):
            monkeypatch.setattr(f"sklearn_calib.{module}.KEPT_SIZE", 0)


def make_data(n_classes, from_logits=True):
    """Return predictions, labels and weights; the first class may have no samples."""
    rng = np.random.default_rng(n_classes)
    logits = 2 * rng.normal(size=(200, n_classes))
    y = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    if n_classes == 4:
        y[y == 0] = 1
    weight = rng.uniform(0.5, 2, 200)
    weight[100] = 0
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    proba[::9] = np.eye(n_classes)[proba[::9].argmax(axis=1)]
    return logits if from_logits else proba, y, weight


def chunks_of(*arrays, cuts=CUTS):
    """Return a callable that returns chunks of arrays."""
    return lambda: (
        tuple(array[start:stop] for array in arrays) for start, stop in pairwise(cuts)
    )


@cache
def fit_whole(calibrator, from_logits, n_classes, has_weights=True):
    """Return a clone that is fitted to all data at once, and the data."""
    data = make_data(n_classes, from_logits)[: 2 + has_weights]
    whole = clone(calibrator).set_params(from_logits=from_logits)
    return whole.fit(*data, labels=np.arange(n_classes)), *data


@ignore_warnings
@pytest.mark.parametrize("calibrator", SUMMED + SORTING, ids=repr)
@of_logits
@pytest.mark.parametrize(("n_classes", "has_weights"), [(2, False), (4, True)])
@both_ways
def test_batches_equal_memory(
    calibrator, from_logits, n_classes, has_weights, keeping, fresh, monkeypatch
):
    whole, *data = fit_whole(calibrator, from_logits, n_classes, has_weights)
    X, labels = data[0], np.arange(n_classes)
    choose(keeping, monkeypatch)
    parts = fresh(calibrator, from_logits=from_logits)
    parts.fit(batches=chunks_of(*data), labels=labels)
    # A search that only compares values finds the minimum to the root of the precision.
    atol = 1e-7 if "brier" in repr(calibrator) else 1e-8
    np.testing.assert_allclose(
        parts.predict_proba(X), whole.predict_proba(X), rtol=0, atol=atol
    )
    assert parts.n_errors_ == pytest.approx(whole.n_errors_, rel=1e-12)
    assert vars(parts).keys() == vars(whole).keys()


@ignore_warnings
@pytest.mark.parametrize("calibrator", ONE_VS_REST, ids=repr)
@pytest.mark.parametrize("from_logits", [True, False])
@both_ways
def test_sorting_batches_is_exact(calibrator, from_logits, keeping, fresh, monkeypatch):
    """For more classes than are read at once."""
    whole, *data = fit_whole(calibrator, from_logits, 11)
    choose(keeping, monkeypatch)
    parts = fresh(calibrator, from_logits=from_logits)
    parts.fit(batches=chunks_of(*data), labels=np.arange(11))
    np.testing.assert_array_equal(parts.class_prior_, whole.class_prior_)
    np.testing.assert_equal(parts.maps_, whole.maps_)


@ignore_warnings
@pytest.mark.parametrize("shape", [(200,), (200, 1)])
def test_binary_scores_and_labels_of_strings(shape):
    X, y, _ = make_data(2)
    score, names = (X[:, 1] - X[:, 0]).reshape(shape), np.array(["ham", "spam"])[y]
    whole = TemperatureScaling(from_logits=True).fit(score, names)
    parts = TemperatureScaling(from_logits=True)
    parts.fit(batches=chunks_of(score, names), labels=["ham", "spam"])
    assert parts.temperature_ == pytest.approx(whole.temperature_, rel=1e-12)
    assert parts.n_features_in_ == 1
    np.testing.assert_array_equal(parts.predict(score), whole.predict(score))


def bad(*chunks):
    return lambda: iter(chunks)


X, Y, WEIGHT = make_data(3)
ONCE = chunks_of(X, Y)()
SHRINKING = iter([[(X, Y)], [(X[:9], Y[:9])]])
MOVING = iter([[(X, Y)], [(X, np.roll(Y, 1) * 0)]])


@ignore_warnings
@pytest.mark.parametrize(
    ("batches", "error", "message"),
    [
        ([(X, Y)], TypeError, "batches must be a callable.*got list. Pass a function"),
        (lambda: 3, TypeError, "batches must return an iterable.*got int. Return"),
        (bad(), ValueError, "batches must return at least one sample, got none"),
        (bad((X[:0], Y[:0])), ValueError, "at least one sample, got none"),
        (bad(X), TypeError, r"Chunk 0 of batches: it must be \(X, y\) or.*got ndarray"),
        (bad((X,)), TypeError, "got tuple of length 1. Return tuples"),
        (bad((X, Y), (X[:, :2], Y)), ValueError, "Chunk 1 of batches: .*2 features"),
        (bad((X, Y), (X, Y + 7)), ValueError, "Chunk 1 of batches: y must contain"),
        (bad((X, Y[:5])), ValueError, "Chunk 0 of batches: .*inconsistent numbers"),
        (bad((X * np.nan, Y)), ValueError, "Chunk 0 of batches: .*NaN"),
        (bad((X, Y, 0 * WEIGHT)), ValueError, "must not be zero in all chunks"),
        (bad((X, Y, -WEIGHT)), ValueError, "Chunk 0 of batches: sample_weight must"),
        (bad((X.astype(str) + "?", Y)), (TypeError, ValueError), "Chunk 0 of batches"),
        (lambda: ONCE, ValueError, "must return the same chunks.*0 samples.*after 200"),
        (lambda: next(SHRINKING), ValueError, "got 9 samples in chunk 0 after 200"),
        (lambda: next(MOVING), ValueError, "must return the same chunks"),
    ],
)
@pytest.mark.usefixtures("nothing_kept")
def test_bad_batches(batches, error, message):
    calibrator = TemperatureScaling(from_logits=True)
    with pytest.raises(error, match=message):
        calibrator.fit(batches=batches, labels=[0, 1, 2])
    assert not hasattr(calibrator, "classes_")


PARTS = [(X[i::4], Y[i::4], WEIGHT[i::4]) for i in range(4)]
OF_ONE_CLASS = [(x, np.full(50, k // 2)) for k, (x, *_) in enumerate(PARTS)]


@ignore_warnings
@pytest.mark.parametrize("name", get_calibrator_names())
@pytest.mark.parametrize("parts", [PARTS, OF_ONE_CLASS], ids=["mixed", "one class"])
@both_ways
def test_another_order_is_refused(name, parts, keeping, monkeypatch):
    """Columns and masks of one pass would be joined to the samples of another one."""
    choose(keeping, monkeypatch)
    orders = iter([parts, [parts[1], parts[0], *parts[2:]]])
    with pytest.raises(ValueError, match=r"other rows in chunk 0.*not shuffle"):
        get_calibrator(name)(from_logits=True).fit(
            batches=lambda: next(orders), labels=[0, 1, 2]
        )


@ignore_warnings
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, y, w: [(x[::-1], y[::-1], w[::-1])], "other rows in chunk 0"),
        (lambda x, y, w: [(x, np.roll(y, 1), w)], "other rows in chunk 0"),
        (lambda x, y, w: [(x, y, np.roll(w, 1))], "other rows in chunk 0"),
        (lambda x, y, _: [(x, y)], "other rows in chunk 0"),
        (lambda x, y, w: [(x, y, w), (x, y, w)], "200 samples in chunk 1 after 0"),
    ],
)
def test_other_rows_are_refused(change, message):
    passes = iter([[(X, Y, WEIGHT)], change(X, Y, WEIGHT)])
    with pytest.raises(ValueError, match=message):
        TemperatureScaling(from_logits=True).fit(
            batches=lambda: next(passes), labels=[0, 1, 2]
        )


def test_logits_that_differ_by_rounding_are_the_same():
    passes = iter([[(X, Y)], [(X * (1 + 1e-4), Y)]])
    calibrator = TemperatureScaling(from_logits=True)
    calibrator.fit(batches=lambda: next(passes), labels=[0, 1, 2])


def test_arguments_that_batches_exclude():
    calibrator, batches = TemperatureScaling(from_logits=True), chunks_of(X, Y)
    with pytest.raises(TypeError, match="X, y and sample_weight must be None if"):
        calibrator.fit(X, Y, batches=batches, labels=[0, 1, 2])
    with pytest.raises(ValueError, match=r"labels must contain.*Pass labels="):
        calibrator.fit(batches=batches)
    with pytest.raises(TypeError, match="X and y must be passed to fit, got None"):
        calibrator.fit()


class Identity(Calibrator):
    """A calibrator outside of the package, which defines the public methods only."""

    def __init__(self, *, from_logits=True):
        self.from_logits = from_logits

    def _fit(self, data):
        self.arrays = data.arrays()

    def _calibrate(self, logits):
        return softmax(logits, axis=1)


@ignore_warnings
def test_batches_of_a_calibrator_that_takes_arrays():
    calibrator = Identity().fit(X, Y, WEIGHT)
    np.testing.assert_allclose(calibrator.predict_proba(X), softmax(X, axis=1))
    parts = Identity().fit(batches=chunks_of(X, Y, WEIGHT), labels=[0, 1, 2])
    for array, whole, given in zip(
        parts.arrays, calibrator.arrays, (X, Y, WEIGHT), strict=True
    ):
        np.testing.assert_array_equal(array, given)
        np.testing.assert_array_equal(whole, given)


def test_logits_that_look_like_probabilities():
    proba = make_data(3, from_logits=False)[0]
    calibrator = TemperatureScaling(from_logits=True)
    with pytest.warns(UserWarning, match="look like probabilities"):
        calibrator.fit(batches=chunks_of(proba, Y), labels=[0, 1, 2])


@cache
def draw_many(n_classes, from_logits):
    """Return predictions and labels."""
    if not from_logits:
        logits, y = draw_many(n_classes, True)
        return softmax(logits, axis=1), y
    rng = np.random.default_rng(0)
    shape = (18_000 if n_classes == 10 else 5000), n_classes
    X = 3 * rng.standard_normal(shape, dtype=np.float32)
    noise = rng.standard_normal(X.shape, dtype=np.float32)
    return X, (X / 2 + noise).argmax(axis=1)


# Rows, and numbers in a block, for which blocks and tables are small next to the data.
SIZES = {
    EnsembleTemperatureScaling: (4000, 8192),
    FocalPosterior: (4000, 4096),
    IsotonicCalibration: (2000, 16384),
    MetaCal: (5000, 16384),
    SplineCalibration: (4000, 16384),
    TemperatureScaling: (4000, 16384),
    VectorScaling: (18_000, 4096),
}


@ignore_warnings
@pytest.mark.parametrize(
    ("calibrator", "n_classes"),
    [
        (EnsembleTemperatureScaling(), 100),
        (FocalPosterior(), 100),
        (IsotonicCalibration(), 100),
        (MetaCal(), 100),
        (SplineCalibration(), 100),
        (TemperatureScaling(), 100),
        (VectorScaling(), 10),
    ],
    ids=repr,
)
@of_logits
@pytest.mark.usefixtures("nothing_kept")
def test_fit_allocates_less_than_half_of_the_data(
    calibrator, n_classes, from_logits, fresh, monkeypatch, peak_memory
):
    """The blocks are small, as the data: numpy reports its memory to tracemalloc."""
    n_rows, block_size = SIZES[type(calibrator)]
    monkeypatch.setattr(validation, "BLOCK_SIZE", block_size)
    X, y = (array[:n_rows] for array in draw_many(n_classes, from_logits))
    calibrator = fresh(calibrator, from_logits=from_logits)
    calibrator.fit(X[:100], y[:100], labels=range(n_classes))  # loads modules
    assert peak_memory(lambda: calibrator.fit(X, y)) < 0.5 * X.nbytes
