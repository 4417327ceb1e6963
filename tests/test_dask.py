"""Dask arrays: errors from sums over blocks, lazy predictions, nothing is gathered."""

from functools import cache

import dask
import dask.array as da
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sklearn_calib import CalibratedClassifier, NeuralClassifier
from sklearn_calib.calibrators import (
    PerLabelCalibrator,
    TemperatureScaling,
    get_calibrator,
    get_calibrator_names,
)
from sklearn_calib.deployment import PriorShiftClassifier
from sklearn_calib.estimators import (
    ConvNet,
    PredictionSetClassifier,
    RefCalClassifier,
    SelectiveClassifier,
)
from sklearn_calib.metrics import (
    CalibrationAccumulator,
    aurc_loss,
    classwise_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
)
from sklearn_calib.persistence import to_dict

LABELS = ["a", "b", "c"]
N_SAMPLES = 300
# With empty blocks at the ends and between others.
ROWS = (0, 100, 0, 199, 1, 0)


@pytest.fixture(autouse=True)
def no_gathering():
    """Raise an error if a Dask array is converted to numpy without being asked to."""

    def refuse(array, *_, **__):
        raise AssertionError(f"{array} is gathered")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(da.Array, "__array__", refuse)
        yield


@pytest.fixture(autouse=True)
def few_threads():
    """Use two threads, as on a machine with two cores."""
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


def problem(n_classes=3, dtype=np.float64):
    """Return labels, overconfident probabilities and weights, of which some are 0."""
    rng = np.random.default_rng(0)
    logits = 3 * rng.standard_normal((N_SAMPLES, n_classes))
    codes = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    proba = np.exp(logits)
    proba /= proba.sum(axis=1, keepdims=True)
    weight = rng.uniform(size=N_SAMPLES) * (rng.uniform(size=N_SAMPLES) < 0.9)
    return np.array(LABELS[:n_classes])[codes], proba.astype(dtype), weight


def lazy(array, rows=ROWS):
    """Return a Dask array, whose blocks have at most two columns."""
    columns = [(size - size // 2, size // 2) for size in array.shape[1:]]
    return da.from_array(array, chunks=(rows, *columns))


def of_unknown_length(array):
    """Return the Dask array as if Dask did not know the lengths of its blocks."""
    unknown = (np.nan,) * array.numblocks[0]
    return array.map_blocks(lambda rows: rows, chunks=(unknown, *array.chunks[1:]))


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        (expected_calibration_error, {}),
        (expected_calibration_error, {"norm": "l2", "reduce_bias": True}),
        (expected_calibration_error, {"mode": "classwise", "n_bins": 7}),
        (expected_calibration_error, {"return_n_bins": True, "labels": LABELS}),
        (maximum_calibration_error, {"n_bins": 3}),
        (classwise_calibration_error, {"average": "sum"}),
        (classwise_calibration_error, {"norm": "max", "labels": LABELS}),
        (classwise_calibration_error, {"norm": 1.5, "labels": LABELS}),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_binned_errors_are_those_of_numpy(metric, options, dtype, weighted):
    y_true, y_proba, weight = problem(dtype=dtype)
    weights = {"sample_weight": weight} if weighted else {}
    expected = metric(y_true, y_proba, **options, **weights)
    lazy_weights = {name: lazy(value) for name, value in weights.items()}
    value = metric(lazy(y_true), lazy(y_proba), **options, **lazy_weights)
    assert value == pytest.approx(expected, rel=1e-12)
    # Arrays in memory are split like the Dask arrays.
    value = metric(y_true.tolist(), lazy(y_proba), **options, **weights)
    assert value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("mode", [None, "positive", "top_label", "classwise"])
@pytest.mark.parametrize("shape", ["1d", "one column"])
def test_binary_as_one_column(mode, shape):
    y_true, y_proba, _ = problem(n_classes=2)
    positive = lazy(y_proba[:, 1])
    given = positive if shape == "1d" else positive[:, None]
    expected = expected_calibration_error(y_true == "b", y_proba[:, 1], mode=mode)
    with pytest.warns(UserWarning, match="The class is taken to be 'b'"):
        value = expected_calibration_error(lazy(y_true[:, None]), given, mode=mode)
    assert value == pytest.approx(expected, rel=1e-12)
    options = {"mode": mode, "labels": ["a", "b"]}
    value = expected_calibration_error(lazy(y_true), y_proba[:, 1], **options)
    assert value == pytest.approx(expected, rel=1e-12)


def test_accumulator_adds_groups_of_blocks():
    y_true, y_proba, weight = problem()
    settings = {"labels": LABELS, "mode": ["top_label", "classwise"]}
    groups = np.arange(N_SAMPLES) // 37
    two = np.column_stack([groups, y_true == "a"])
    for group in groups, two:
        expected = CalibrationAccumulator(**settings)
        expected.update(y_true, y_proba, weight, groups=group)
        for given in lazy(group), group:
            total = CalibrationAccumulator(**settings)
            total.update(lazy(y_true), lazy(y_proba), lazy(weight), groups=given)
            assert total.groups_.keys() == expected.groups_.keys()
            for name, each in expected.groups_.items():
                value = total.groups_[name].compute(mode="classwise")
                assert value == pytest.approx(each.compute(mode="classwise"), rel=1e-12)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("rows", [ROWS, (N_SAMPLES,), (30,) * 10])
@pytest.mark.parametrize("known", [True, False])
def test_accumulator_adds_blocks(strategy, rows, known):
    settings = {"labels": LABELS, "strategy": strategy, "mode": "classwise"}
    data = problem()
    expected = CalibrationAccumulator(**settings).update(*data).update(*data)
    blocks = [lazy(array, rows) for array in data]
    if not known:
        blocks = [*map(of_unknown_length, blocks)]
    accumulator = CalibrationAccumulator(**settings).update(*data).update(*blocks)
    np.testing.assert_allclose(accumulator.totals_, expected.totals_, rtol=1e-12)
    for norm in "l1", "l2", "max":
        value = accumulator.compute(norm=norm)
        assert value == pytest.approx(expected.compute(norm=norm), rel=1e-11)


def test_no_more_than_one_block_for_each_thread_is_in_memory():
    """A block is released once its sums are known."""
    n_blocks, alive, most = 20, [], []

    class Rows(np.ndarray):
        def __del__(self):
            if self.base is None:
                alive.pop()

    def block(seed):
        rows = Rows((1000, 3))
        rows[:] = np.random.default_rng(seed).dirichlet(np.ones(3), 1000)
        alive.append(None)
        most.append(len(alive))
        return rows

    pieces = [
        da.from_delayed(dask.delayed(block)(seed), (1000, 3), float)
        for seed in range(n_blocks)
    ]
    y_true = da.zeros(1000 * n_blocks, dtype=int, chunks=1000)
    value = expected_calibration_error(y_true, da.concatenate(pieces), labels=range(3))
    assert value > 0.1
    assert len(most) == n_blocks
    assert max(most) <= 4


def test_a_refused_block_leaves_no_trace():
    y_true, y_proba, _ = problem()
    accumulator = CalibrationAccumulator(labels=LABELS).update(y_true, y_proba)
    before = to_dict(accumulator)
    y_proba[250] = np.nan
    message = "Block 3 of the Dask arrays: y_proba must be finite, got NaN"
    for add in accumulator.update, expected_calibration_error:
        with pytest.raises(ValueError, match=message):
            add(lazy(y_true), lazy(y_proba))
    assert to_dict(accumulator) == before


def test_bad_input():
    y_true, y_proba, weight = problem()
    error = expected_calibration_error
    with pytest.raises(ValueError, match=r"must have .* got 299 and 300 rows"):
        error(y_true[1:], lazy(y_proba))
    with pytest.raises(ValueError, match=r"got 300 and 300 and 2 rows"):
        error(y_true, lazy(y_proba), sample_weight=weight[:2])
    with pytest.raises(ValueError, match="y_true must contain 3 distinct labels"):
        error(np.full(N_SAMPLES, "a"), lazy(y_proba))
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        error(y_true, of_unknown_length(lazy(y_proba)))
    for rows, weight in [(slice(0), None), (slice(300), da.zeros(300))]:
        with pytest.raises(ValueError, match="a sample with positive weight, got none"):
            error(
                lazy(y_true)[rows],
                lazy(y_proba)[rows],
                labels=np.unique(y_true),
                sample_weight=weight,
            )
    for options in {"strategy": "quantile"}, {"n_bins": "sweep"}:
        with pytest.raises(ValueError, match=r"string for Dask arrays, got .* Cal"):
            error(y_true, lazy(y_proba), **options)
    with pytest.raises(TypeError, match=r"y_proba .* got a Dask Array. Update a Calib"):
        aurc_loss(y_true, lazy(y_proba))
    with pytest.raises(TypeError, match=r"y_true .* got a Dask Array. Call .* compute"):
        aurc_loss(lazy(y_true), y_proba)


@cache
def fitted_calibrators():
    """Return a fitted calibrator of each kind."""
    y_true, y_proba, _ = problem()
    fitted = []
    for name in get_calibrator_names():
        kind = get_calibrator(name)
        if issubclass(kind, PerLabelCalibrator):
            continue
        from_logits = "from_logits" in kind().get_params()
        X = np.log(y_proba) if from_logits else y_proba
        options = {"from_logits": True} if from_logits else {}
        fitted.append(kind(**options).fit(X[::4], y_true[::4]))
    return fitted


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_calibrators_predict_lazily(dtype):
    _, y_proba, _ = problem(dtype=dtype)
    given, blocks = [], []
    for calibrator in fitted_calibrators():
        X = np.log(y_proba) if hasattr(calibrator, "from_logits") else y_proba
        proba, labels = calibrator.predict_proba(lazy(X)), calibrator.predict(lazy(X))
        assert isinstance(proba, da.Array), calibrator
        assert proba.dtype == dtype
        assert proba.chunks == (ROWS, (3,))
        assert labels.chunks == (ROWS,)
        given.append((calibrator, X, labels.dtype))
        blocks.append((proba, labels))
    [computed] = da.compute(blocks)
    for (calibrator, X, dtype_of_labels), (found, predicted) in zip(
        given, computed, strict=True
    ):
        np.testing.assert_allclose(found, calibrator.predict_proba(X), rtol=1e-6)
        assert found.dtype == dtype
        np.testing.assert_array_equal(predicted, calibrator.predict(X))
        assert dtype_of_labels == predicted.dtype


def test_predictions_of_blocks_of_unknown_length():
    y_true, y_proba, _ = problem()
    calibrator = TemperatureScaling().fit(y_proba, y_true)
    blocks = lazy(y_proba)
    some = blocks[blocks[:, 0] > 0.999]  # of which most are empty
    proba = calibrator.predict_proba(some).compute()
    expected = calibrator.predict_proba(y_proba[y_proba[:, 0] > 0.999])
    np.testing.assert_array_equal(proba, expected)


def test_single_columns_and_labels():
    y_true, y_proba, _ = problem(n_classes=2)
    calibrator = get_calibrator("beta")().fit(y_proba[:, 1], y_true)
    expected = calibrator.predict_proba(y_proba[:, 1])
    for X in lazy(y_proba[:, 1]), lazy(y_proba[:, 1])[:, None]:
        np.testing.assert_array_equal(calibrator.predict_proba(X).compute(), expected)
    indicator = y_proba > 0.4
    several = PerLabelCalibrator(TemperatureScaling()).fit(y_proba, indicator)
    for method in "predict_proba", "predict":
        blocks = getattr(several, method)(lazy(y_proba))
        assert blocks.chunks == (ROWS, (2,))
        expected = getattr(several, method)(y_proba)
        np.testing.assert_array_equal(blocks.compute(), expected)
        assert blocks.dtype == expected.dtype


def test_a_later_fit_does_not_change_predictions():
    y_true, y_proba, _ = problem()
    calibrator = TemperatureScaling().fit(y_proba, y_true)
    expected, proba = (
        calibrator.predict_proba(y_proba),
        calibrator.predict_proba(lazy(y_proba)),
    )
    calibrator.fit(y_proba, y_true[::-1])
    np.testing.assert_array_equal(proba.compute(), expected)


def test_classifiers_predict_lazily():
    y_true, X, _ = problem(dtype=np.float32)
    images = np.zeros((N_SAMPLES, 1, 4, 4), np.float32) + X[:, :1, None, None]
    net = {"max_epochs": 1, "random_state": 0}
    for model, data in [
        (CalibratedClassifier(LogisticRegression(), TemperatureScaling(), cv=2), X),
        (NeuralClassifier(**net), X),
        (NeuralClassifier(ConvNet, **net), images),
        (RefCalClassifier(head__max_epochs=1, refine__max_epochs=1, random_state=0), X),
        (PriorShiftClassifier(LogisticRegression(), priors=[0.2, 0.2, 0.6]), X),
    ]:
        model.fit(data[::4], y_true[::4])
        proba, labels = model.predict_proba(lazy(data)), model.predict(lazy(data))
        assert proba.chunks == (ROWS, (3,))
        found, predicted = da.compute(proba, labels)
        assert proba.dtype == found.dtype == np.float64
        np.testing.assert_allclose(found, model.predict_proba(data), rtol=1e-5)
        np.testing.assert_array_equal(predicted, model.predict(data))


def test_what_is_not_lazy_raises():
    y_true, X, _ = problem()
    forest = CalibratedClassifier(LogisticRegression(), None, cv=2).fit(X, y_true)
    net = NeuralClassifier(max_epochs=1).fit(X, y_true)
    selective = SelectiveClassifier(forest, coverage=0.8).fit(X, y_true)
    sets = PredictionSetClassifier(forest).fit(X, y_true)
    calibrator = TemperatureScaling().fit(X, y_true)
    for call in (
        lambda: forest.fit(lazy(X), y_true),
        lambda: forest.fit(X, lazy(y_true)),
        lambda: net.fit(lazy(X), y_true),
        lambda: net.decision_function(lazy(X)),
        lambda: selective.fit(lazy(X), y_true),
        lambda: selective.predict(lazy(X)),
        lambda: sets.fit(lazy(X), y_true),
        lambda: sets.predict_set(lazy(X)),
        lambda: calibrator.fit(lazy(X), y_true),
        lambda: calibrator.fit(X, y_true, lazy(np.ones(N_SAMPLES))),
    ):
        with pytest.raises(TypeError, match=r"in memory here, got a Dask Array\. Call"):
            call()
    with pytest.raises(ValueError, match="X has 2 features, but TemperatureScaling is"):
        calibrator.predict_proba(lazy(X)[:, :2])


@pytest.mark.slow
def test_cluster_of_two_workers():
    """Predictions and errors are computed where the blocks are."""
    from distributed import Client, LocalCluster

    y_true, y_proba, weight = problem()
    calibrator = TemperatureScaling().fit(y_proba, y_true)
    expected = expected_calibration_error(
        y_true, calibrator.predict_proba(y_proba), sample_weight=weight
    )
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as two,
        Client(two),
    ):
        value = expected_calibration_error(
            lazy(y_true),
            calibrator.predict_proba(lazy(y_proba)),
            sample_weight=lazy(weight),
        )
    assert value == pytest.approx(expected, rel=1e-12)
