"""Frames with columns named by classes, and predicted labels, where data go through.

All metrics, calibrators and displays are held to the same laws in their folders. Here
are the functions and classes that pass their data on to others.
"""

import re
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest

from sklearn_calib.calibrators import (
    PerGroupCalibrator,
    PerLabelCalibrator,
    PlattScaling,
    TemperatureAccumulator,
    TemperatureScaling,
    VennAbers,
)
from sklearn_calib.deployment import (
    CalibrationMonitor,
    adjust_priors,
    estimate_priors,
)
from sklearn_calib.evaluation import calibration_report, compare, risk_report
from sklearn_calib.losses import AdaFocalLoss
from sklearn_calib.metrics import (
    CalibrationAccumulator,
    aurc_loss,
    bootstrap_interval,
    consistency_test,
    difference_test,
    ece_consistency_bound,
    expected_calibration_error as ece,
    ks_calibration_error,
    per_group,
    per_label,
    worst_group,
)

CODES, GROUPS = np.arange(20) % 2, np.repeat([0, 1], 10)
Y = np.array(["bad", "mad"])[CODES]
MAD = np.where(np.arange(20) % 5, 0.3 + 0.4 * CODES, 0.6)
FRAME = pd.DataFrame({"bad": 1 - MAD, "mad": MAD})
PREDICTED = np.tile([0, 1, 1, 0], 5)
DRAWS = {"n_resamples": 2, "random_state": 0}
SUMS = {"labels": ["bad", "mad"]}
MODES = ["top_label", "positive", "classwise"]


def fitted(calibrator, **options):
    """Return the calibrator after a fit to an array."""
    return calibrator.fit(FRAME.to_numpy(), Y, **options)


def with_dask(function):
    """Return a function that passes labels as a Dask array."""

    def call(y, proba):
        array = pytest.importorskip("dask.array", reason="needs dask")
        return function(array.from_array(y, chunks=10), proba)

    return call


# Called with labels and probabilities.
OF_LABELS = {
    "CalibrationAccumulator": lambda y, p: CalibrationAccumulator(
        mode=MODES, **SUMS
    ).update(y, p),
    "CalibrationAccumulator of groups": lambda y, p: CalibrationAccumulator(
        **SUMS
    ).update(y, p, groups=GROUPS),
    "CalibrationAccumulator with Dask": with_dask(
        lambda y, p: CalibrationAccumulator(**SUMS).update(y, p)
    ),
    "CalibrationMonitor": lambda y, p: CalibrationMonitor(**SUMS).update(y, p),
    "PerGroupCalibrator": lambda y, p: PerGroupCalibrator(TemperatureScaling()).fit(
        p, y, groups=GROUPS
    ),
    "TemperatureAccumulator": lambda y, p: TemperatureAccumulator(
        from_logits=True, **SUMS
    ).update(p, y),
    "bootstrap_interval": lambda y, p: bootstrap_interval(aurc_loss, y, p, **DRAWS),
    "bootstrap_interval of bins": lambda y, p: bootstrap_interval(ece, y, p, **DRAWS),
    "bootstrap_interval of ranks": lambda y, p: bootstrap_interval(
        ks_calibration_error, y, p, **DRAWS
    ),
    "calibration_report": lambda y, p: calibration_report(y, p, **DRAWS),
    "calibration_report of groups": lambda y, p: calibration_report(
        y, p, groups=GROUPS, **DRAWS
    ),
    "compare": lambda y, p: compare({"a": p}, None, y, **DRAWS),
    "consistency_test": lambda y, p: consistency_test(ece, y, p, **DRAWS),
    "difference_test": lambda y, p: difference_test(
        aurc_loss, y, p, np.asarray(p) * 1.0, **DRAWS
    ),
    "difference_test by name": lambda y, p: difference_test(
        "neg_aurc", y, p, np.asarray(p) * 1.0, **DRAWS
    ),
    "expected_calibration_error with Dask": with_dask(partial(ece, **SUMS)),
    "fit(batches=)": lambda y, p: TemperatureScaling(from_logits=True).fit(
        batches=lambda: [(p, y), (p, y)], **SUMS
    ),
    "partial_fit": lambda y, p: PlattScaling(from_logits=True).partial_fit(
        p, y, classes=SUMS["labels"]
    ),
    "per_group": lambda y, p: per_group(ece, y, p, groups=GROUPS),
    "per_group with intervals": lambda y, p: per_group(
        aurc_loss, y, p, groups=GROUPS, confidence_level=0.9, **DRAWS
    ),
    "risk_report": lambda y, p: risk_report(y, p, thresholds=[0.5], **DRAWS),
    "worst_group": lambda y, p: worst_group(ece, y, p, groups=GROUPS),
}
# Called with probabilities or logits of the classes "bad" and "mad".
OF_PREDICTIONS = {
    "PerGroupCalibrator.predict": lambda p: fitted(
        PerGroupCalibrator(TemperatureScaling()), groups=GROUPS
    ).predict(p, groups=GROUPS),
    "VennAbers.predict_interval": lambda p: fitted(VennAbers()).predict_interval(p),
    "predict": lambda p: fitted(TemperatureScaling()).predict(p),
    "further partial_fit": lambda p: (
        PlattScaling()
        .partial_fit(FRAME.to_numpy(), Y, classes=SUMS["labels"])
        .partial_fit(p, Y)
    ),
}
few = pytest.mark.filterwarnings(
    "ignore:.* needs about", "ignore:X has feature names", "ignore:.*look like proba"
)


@few
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@pytest.mark.parametrize("name", [*OF_LABELS, *OF_PREDICTIONS])
def test_names_of_columns(name):
    call = partial(OF_LABELS[name], Y) if name in OF_LABELS else OF_PREDICTIONS[name]
    with pytest.raises(ValueError, match=r" = .*\[\['bad', 'mad'\]\]\.$"):
        call(FRAME[["mad", "bad"]])
    with pytest.raises(ValueError, match=r"by none of them, got \['mad', 'sad'\]"):
        call(FRAME.set_axis(["mad", "sad"], axis=1))
    call(FRAME)
    call(FRAME.set_axis(["sad", "glad"], axis=1))


@few
def test_labels_that_look_like_positions():
    """Names such as "2" may be those of an array that was saved, or labels."""
    labels = sorted(map(str, range(11)))
    y = np.array(labels + labels + labels[::-1])
    proba = np.tile(np.eye(11) / 2 + 1 / 22, (3, 1))
    frame = pd.DataFrame(proba, columns=[*map(str, range(11))])
    calibrator = TemperatureScaling().fit(frame.to_numpy(), y)
    for call in (
        lambda p: ece(y, p),
        lambda p: CalibrationMonitor(labels=labels).update(y, p),
        lambda p: CalibrationAccumulator(labels=labels).update(y, p),
        lambda p: TemperatureScaling().fit(p, y),
        calibrator.predict_proba,
    ):
        with pytest.raises(
            ValueError, match=r"to_numpy\(\) if .* = \w+\[\[\*labels\]\]"
        ):
            call(frame)
        call(frame[labels])
        call(frame.set_axis(range(11), axis=1))


def texts_of(call, *arguments):
    """Return the texts of all warnings."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call(*arguments)
    return [str(each.message) for each in found]


# They have the labels of the columns, or `classes_` in the order of scikit-learn.
DECLARED = {
    *(name for name in OF_LABELS if "Accumulator" in name or "Dask" in name),
    "CalibrationMonitor",
    "PerGroupCalibrator",
    "fit(batches=)",
    "partial_fit",
}


@pytest.mark.parametrize("name", OF_LABELS)
def test_class_of_one_column_is_told_once(name):
    texts = texts_of(OF_LABELS[name], Y, MAD)
    found = sum("The class is taken to be 'mad'" in text for text in texts)
    assert found == (name not in DECLARED)


def told(call, *arguments):
    """Return how many warnings of predicted labels there are."""
    texts = texts_of(call, *arguments)
    number = sum("look like predicted labels" in text for text in texts)
    assert not (number and any("look like probabilities" in text for text in texts))
    return number


@pytest.mark.parametrize("name", OF_LABELS)
def test_predicted_labels_are_told_once(name):
    assert told(OF_LABELS[name], Y, PREDICTED) == 1
    assert told(OF_LABELS[name], Y, 0.2 + 0.5 * PREDICTED) == 0


def test_predicted_labels_without_true_ones():
    priors = [0.5, 0.5]
    calls = {
        "adjust_priors": lambda p: adjust_priors(p, priors, priors),
        "ece_consistency_bound": lambda p: ece_consistency_bound(p, **DRAWS),
        "estimate_priors": lambda p: estimate_priors(p, priors, n_resamples=2),
        "predict": fitted_to_one_column(TemperatureScaling()).predict,
        "predict_interval": fitted_to_one_column(VennAbers()).predict_interval,
    }
    found = {name: told(call, PREDICTED) for name, call in calls.items()}
    assert found == dict.fromkeys(calls, 1)


def fitted_to_one_column(calibrator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return calibrator.fit(FRAME["mad"], Y)


def test_predicted_labels_of_one_chunk_on_dask():
    """Their values are not known before they are computed."""
    array = pytest.importorskip("dask.array", reason="needs dask")
    for labels in (PREDICTED, PREDICTED[:, None]):
        lazy = array.from_array(labels, chunks=(10, -1)[: labels.ndim])
        assert told(partial(ece, labels=[0, 1]), CODES, lazy) == 1


@pytest.mark.parametrize("kinds", [(str, str), (int, str), (str, int)])
def test_code_for_many_columns(kinds):
    """The code in the message selects the columns, also by the labels as text."""
    of_labels, of_names = kinds
    labels = [of_labels(number) for number in range(100, 112)]
    frame = pd.DataFrame(np.full((24, 12), 1 / 12), columns=[*map(of_names, labels)])
    metric = partial(ece, labels * 2, labels=labels)
    with pytest.raises(ValueError, match="Reorder them") as refused:
        metric(frame.iloc[:, ::-1])
    code = re.search(r"= y_proba(\[.*\])\.$", str(refused.value))[1]
    pd.testing.assert_frame_equal(eval(f"frame{code}"), frame)


@few
def test_labels_of_multilabel_problems():
    """The columns of both frames are labels."""
    y = pd.DataFrame({"bad": 1 - CODES, "mad": CODES})
    draws = partial(bootstrap_interval, partial(per_label, aurc_loss), **DRAWS)
    for call in (
        lambda p: per_label(ece, y, p),
        lambda p: draws(y, p),
        lambda p: PerLabelCalibrator(TemperatureScaling()).fit(p, y),
    ):
        with pytest.raises(ValueError, match=r"\[\['bad', 'mad'\]\]\.$"):
            call(FRAME[["mad", "bad"]])
        call(FRAME)
        call(FRAME.set_axis(["sad", "glad"], axis=1))
    calibrator = PerLabelCalibrator(TemperatureScaling())
    labels = np.column_stack([PREDICTED, PREDICTED])
    assert told(calibrator.fit, labels, y) == 1
    assert told(calibrator.predict_proba, labels) == 1
    assert told(partial(per_label, ece), y, labels) == 1


def test_priors_by_label():
    """The keys of priors are the labels 0, 1, ..."""
    numbers = FRAME.set_axis([1, 0], axis=1)
    for priors in ({0: 0.5, 1: 0.5}, pd.Series([0.5, 0.5])):
        with pytest.raises(ValueError, match=r"y_proba = y_proba\[\[0, 1\]\]\.$"):
            adjust_priors(numbers, priors, [0.5, 0.5])
        with pytest.raises(ValueError, match=r"y_proba = y_proba\[\[0, 1\]\]\.$"):
            estimate_priors(numbers, priors)
    adjust_priors(numbers, [0.5, 0.5], [0.5, 0.5])


def test_validation_bins_of_a_loss():
    numbers = FRAME.set_axis([1, 0], axis=1)
    loss = AdaFocalLoss(n_bins=2)
    with pytest.raises(ValueError, match=r"y_proba = y_proba\[\[0, 1\]\]\.$"):
        loss.update(CODES, numbers)
