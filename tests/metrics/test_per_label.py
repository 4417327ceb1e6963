"""Metrics of samples with several labels, against those of each label alone."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import (
    brier_score_loss,
    log_loss as sklearn_log_loss,
    make_scorer,
    roc_auc_score,
)
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB

from sklearn_calib.calibrators import PerLabelCalibrator, TemperatureScaling
from sklearn_calib.metrics import (
    aurc_loss,
    bootstrap_interval,
    difference_test,
    ece_interval,
    expected_calibration_error,
    per_group,
    per_label,
)
from sklearn_calib.metrics._draws import take_sample


def log_loss(y_true, y_proba, *, labels=None, sample_weight=None):  # noqa: ARG001 - per_label passes it
    """Return the log loss, without the checks that make draws slow."""
    proba = np.where(y_true, y_proba, 1 - np.asarray(y_proba))
    return -np.average(np.log(proba), weights=sample_weight)


RNG = np.random.default_rng(0)
PROBA = RNG.uniform(size=(200, 3))
Y = (RNG.uniform(size=PROBA.shape) < PROBA**2).astype(int)


@pytest.mark.parametrize(
    "metric",
    [
        expected_calibration_error,
        aurc_loss,
        sklearn_log_loss,
        brier_score_loss,
        roc_auc_score,
    ],
)
def test_the_metric_of_each_column(metric):
    expected = [metric(Y[:, j], PROBA[:, j]) for j in range(3)]
    np.testing.assert_array_equal(per_label(metric, Y, PROBA, average=None), expected)
    value = per_label(metric, Y, PROBA)
    assert isinstance(value, float)
    assert value == pytest.approx(np.mean(expected), rel=1e-15)


def test_the_macro_average_of_scikit_learn():
    expected = roc_auc_score(Y, PROBA, average="macro")
    assert per_label(roc_auc_score, Y, PROBA) == pytest.approx(expected, rel=1e-14)


def test_by_hand():
    """The probability is 0.75; the label frequencies are 0.75 and 1."""
    y_true, y_proba = [[1, 1], [1, 1], [0, 1], [1, 1]], np.full((4, 2), 0.75)
    found = per_label(expected_calibration_error, y_true, y_proba, average=None)
    np.testing.assert_allclose(found, [0, 0.25], atol=1e-15)


def test_options_reach_the_metric():
    weight = RNG.integers(0, 3, size=200)
    options = {"n_bins": 4, "strategy": "quantile"}
    found = per_label(
        expected_calibration_error, Y, PROBA, sample_weight=weight, **options
    )
    repeated = (Y.repeat(weight, axis=0), PROBA.repeat(weight, axis=0))
    expected = per_label(expected_calibration_error, *repeated, **options)
    assert found == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ValueError, match=r"'n_bins'.* Got -1"):
        per_label(expected_calibration_error, Y, PROBA, n_bins=-1)


@pytest.mark.parametrize("metric", [expected_calibration_error, log_loss, aurc_loss])
def test_a_label_that_no_sample_has(metric):
    found = per_label(metric, np.zeros_like(Y), PROBA, average=None)
    expected = [metric(np.zeros(200, int), p, labels=[0, 1]) for p in PROBA.T]
    np.testing.assert_array_equal(found, expected)
    one = per_label(metric, Y[:, :1], PROBA[:, :1])
    assert one == metric(Y[:, 0], PROBA[:, 0])


# Each label is known for about two thirds of the samples.
KNOWN = np.random.default_rng(1).uniform(size=Y.shape) < 2 / 3
PARTIAL = np.where(KNOWN, Y, np.nan)
WEIGHTS = [None, np.arange(200) % 3, np.arange(600).reshape(200, 3) % 5]


def columns(weight):
    """Yield the known labels of each column, with their weights as an option."""
    for j, known in enumerate(KNOWN.T):
        options = {}
        if weight is not None:
            options["sample_weight"] = (weight[:, j] if weight.ndim > 1 else weight)[
                known
            ]
        yield (Y[known, j], PROBA[known, j]), options


@pytest.mark.parametrize(
    "metric",
    [expected_calibration_error, aurc_loss, sklearn_log_loss, roc_auc_score],
)
@pytest.mark.parametrize("weight", WEIGHTS)
def test_unknown_labels_and_weights_per_label(metric, weight):
    options = {} if weight is None else {"sample_weight": weight}
    found = per_label(metric, PARTIAL, PROBA, average=None, **options)
    expected = [metric(*pair, **each) for pair, each in columns(weight)]
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    value = per_label(partial(metric, **options), PARTIAL, PROBA)
    assert value == pytest.approx(np.mean(expected), rel=1e-13)


def test_a_label_that_is_never_known():
    y = PARTIAL.copy()
    y[:, 1] = np.nan
    with pytest.raises(ValueError, match=r"got only NaN for label 1\. Leave out its"):
        per_label(expected_calibration_error, y, PROBA)


DRAWS = {"confidence_level": 0.8, "n_resamples": 3, "random_state": 0}


@pytest.mark.parametrize("metric", [expected_calibration_error, log_loss, aurc_loss])
@pytest.mark.parametrize("weighted", [False, True])
def test_intervals(metric, weighted):
    """Those of each label alone, and of the mean over the labels."""
    y, proba = Y[:8], PROBA[:8]
    options = {"sample_weight": np.arange(8) % 3} if weighted else {}
    table = per_label(metric, y, proba, **options, **DRAWS)
    assert list(table.columns) == ["value", "low", "high"]
    assert list(table.index) == [0, 1, 2, "macro"]
    expected = per_label(metric, y, proba, average=None, **options)
    np.testing.assert_array_equal(table["value"][:3], expected)
    ends = [
        bootstrap_interval(metric, *pair, labels=[0, 1], **options, **DRAWS)
        for pair in zip(y.T, proba.T, strict=True)
    ]
    every = partial(per_label, metric)
    ends.append(bootstrap_interval(every, y, proba, **options, **DRAWS))
    np.testing.assert_array_equal(table[["low", "high"]], ends)
    assert table["value"]["macro"] == per_label(metric, y, proba, **options)
    each = per_label(partial(metric, **options), y, proba, average=None, **DRAWS)
    pd.testing.assert_frame_equal(each, table[:3])


@pytest.mark.parametrize("metric", [expected_calibration_error, log_loss])
@pytest.mark.parametrize("weight", WEIGHTS)
def test_intervals_of_unknown_labels(metric, weight):
    """Those of each label alone; a draw for their mean keeps the unknown labels."""
    options = {} if weight is None else {"sample_weight": weight}
    table = per_label(metric, PARTIAL, PROBA, average=None, **options, **DRAWS)
    ends = [
        bootstrap_interval(metric, *pair, labels=[0, 1], **each, **DRAWS)
        for pair, each in columns(weight)
    ]
    np.testing.assert_allclose(table[["low", "high"]], ends, rtol=1e-13)
    if np.ndim(weight) > 1:
        with pytest.raises(ValueError, match="average must be None for intervals"):
            per_label(metric, PARTIAL, PROBA, **options, **DRAWS)
        return
    macro = per_label(metric, PARTIAL, PROBA, **options, **DRAWS).loc["macro"]
    assert macro["low"] <= macro["value"] <= macro["high"]
    every = partial(per_label, metric)
    sample = take_sample(every, PARTIAL, PROBA, None, None, stratify=False)
    drawn = sample.draw_calibrated(0)["y_true"]
    np.testing.assert_array_equal(np.isnan(drawn), ~KNOWN)


def test_intervals_of_options_and_names():
    names = ["edema", "mass", "nodule"]
    options = {"n_bins": 4, "reduce_bias": True}
    table = per_label(
        expected_calibration_error,
        pd.DataFrame(Y, columns=names),
        PROBA,
        **options,
        **DRAWS,
    )
    assert list(table.index) == [*names, "macro"]
    metric = partial(expected_calibration_error, **options)
    expected = per_label(metric, Y, pd.DataFrame(PROBA, columns=names), **DRAWS)
    pd.testing.assert_frame_equal(table, expected)


def test_labels_with_too_few_samples_have_no_interval():
    """Without a positive sample, the area under the ROC curve is not defined."""
    y = Y[:14] * [1, 0, 1]
    with pytest.warns(UndefinedMetricWarning):
        table = per_label(roc_auc_score, y, PROBA[:14], **DRAWS)
    assert table.isna().all(axis=1).tolist() == [False, True, False, True]


def test_jobs_and_progress(capfd):
    data = log_loss, Y[:10], PROBA[:10]
    one = per_label(*data, **DRAWS)
    assert capfd.readouterr() == ("", "")
    with parallel_config("threading"):
        both = per_label(*data, **DRAWS, n_jobs=2, verbose=10)
    pd.testing.assert_frame_equal(one, both)
    assert "Parallel(n_jobs=2)]: Done" in "".join(capfd.readouterr())


def test_metrics_of_several_numbers():
    """The result contains an interval for each label, without averaging."""
    metric = partial(ece_interval, random_state=0, n_resamples=20)
    assert per_label(metric, Y, PROBA, average=None).shape == (3, 2)


@pytest.mark.parametrize("kind", [pd.DataFrame, np.ndarray.tolist, np.asfortranarray])
@pytest.mark.parametrize("dtype", [bool, float, np.int8])
def test_any_array_like(kind, dtype):
    found = per_label(log_loss, kind(Y.astype(dtype)), kind(PROBA))
    assert found == per_label(log_loss, Y, PROBA)


@pytest.mark.parametrize("n_labels", [2, 3])
def test_as_a_scorer(n_labels):
    X = RNG.normal(size=(200, 4))
    y = Y[:, :n_labels]
    net = MultiOutputClassifier(GaussianNB()).fit(X, y)
    scorer = make_scorer(
        partial(per_label, expected_calibration_error),
        response_method="predict_proba",
        greater_is_better=False,
    )
    pairs = net.predict_proba(X)
    proba = np.column_stack([p[:, 1] for p in pairs])
    assert scorer(net, X, y) == -per_label(expected_calibration_error, y, proba)
    found = per_label(expected_calibration_error, y, pairs)
    assert found == per_label(expected_calibration_error, y, proba)


def test_radiographs(shared_data):
    """The predicted probability of each of seven findings is much too high."""
    data = shared_data("logits/nih_chestxray_densenet121_multilabel_a.npz")
    y, proba = data["labels"], expit(data["logits"])
    auc = per_label(roc_auc_score, y, proba, average=None)
    assert (auc.min(), auc.max()) == pytest.approx((0.71, 0.89), abs=0.005)
    error = per_label(expected_calibration_error, y, proba, average=None)
    np.testing.assert_allclose(error, proba.mean(0) - y.mean(0), atol=0.002)


@pytest.mark.parametrize(
    ("y_true", "y_proba", "message"),
    [
        (
            Y[:, 0],
            PROBA[:, 0],
            r"y_proba must have shape .* got \(200,\)\. Pass one co",
        ),
        (
            Y[:, 0],
            PROBA,
            r"y_true must contain .* shape of .* \(200, 3\), got \(200,\)",
        ),
        (Y[:, :2], PROBA, r"y_true must contain .* got \(200, 2\)\. Pass an indicator"),
        (
            Y + 1,
            PROBA,
            r"y_true must contain only zeros and ones, got values in \[1, 2\]",
        ),
        (Y + 0.5, PROBA, r"only zeros and ones, got values in \[0.5, 1.5\]\. Pass 1"),
        (Y + np.nan, PROBA, "got only NaN for label 0"),
        (PARTIAL + 0.5, PROBA, r"only zeros and ones, got values in \[0.5, 1.5\]"),
        (Y + np.inf, PROBA, "y_true contains infinity"),
        (Y, PROBA * 9, r"y_proba must lie in \[0, 1\]"),
        (Y, [[0.5, 0.5], [0.5]], "inhomogeneous"),
    ],
)
def test_bad_data(y_true, y_proba, message):
    with pytest.raises(ValueError, match=message):
        per_label(expected_calibration_error, y_true, y_proba)


def test_bad_arguments():
    with pytest.raises(TypeError, match=r"'y_true'.* must be an array-like\. Got <"):
        per_label(expected_calibration_error, csr_array(Y), PROBA)
    for shape in [(199,), (200, 2)]:
        with pytest.raises(ValueError, match=r"have shape \(200,\) or \(200, 3\), got"):
            per_label(log_loss, Y, PROBA, sample_weight=np.ones(shape))
    with pytest.raises(ValueError, match=r"'average'.* Got 'micro'"):
        per_label(expected_calibration_error, Y, PROBA, average="micro")
    with pytest.raises(ValueError, match=r"'confidence_level' parameter .* Got 95"):
        per_label(log_loss, Y, PROBA, confidence_level=95)
    with pytest.raises(TypeError, match=r"metric must be a function .* got 'ece'"):
        per_label("ece", Y, PROBA)


def test_lists_of_arrays():
    """Forests return an array with both classes for each label."""
    pairs = [np.column_stack([1 - p, p]) for p in PROBA.T]
    metric = partial(per_label, expected_calibration_error)
    few, options = slice(20), {"n_resamples": 3, "random_state": 0}
    y, proba, pairs = Y[few], PROBA[few], [pair[few] for pair in pairs]
    groups = np.arange(20) % 2
    for call in [
        partial(bootstrap_interval, metric, **options),
        partial(per_group, metric, groups=groups, confidence_level=0.9, **options),
    ]:
        np.testing.assert_array_equal(call(y, pairs), call(y, proba))
    result = difference_test(partial(per_label, log_loss), y, pairs, proba, **options)
    assert result.statistic == 0
    with pytest.raises(ValueError, match=r"one label at a time: y\[:, k\], y_proba"):
        expected_calibration_error(y, pairs)
    with pytest.raises(ValueError, match=r"column_stack\(\[p\[:, 1\] for p in X\]\)"):
        PerLabelCalibrator(TemperatureScaling()).fit(pairs, y)
