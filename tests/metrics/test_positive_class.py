"""Laws of `pos_label`, for every metric that evaluates the positive class of two."""

import inspect
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from sklearn_calib import metrics
from sklearn_calib.evaluation import compare
from sklearn_calib.metrics import (
    CalibrationAccumulator,
    bootstrap_interval,
    classwise_calibration_error,
    consistency_test,
    difference_test,
    expected_calibration_error,
    get_scorer,
    get_scorer_names,
    integrated_calibration_index,
    ks_calibration_error,
    net_benefit_score,
    per_group,
    smooth_calibration_error,
    worst_group,
)
from sklearn_calib.metrics._accumulator.cell_metrics import modes_of

HELD = [
    name
    for name in metrics.__all__
    if [*inspect.signature(vars(metrics)[name]).parameters][:2] == ["y_true", "y_proba"]
]
# The label only tells the class of a 1-d array.
SYMMETRIC = {
    name: "treats all classes alike"
    for name in HELD
    if "positive" not in modes_of(vars(metrics)[name])
    and name != "hosmer_lemeshow_test"
}
EXCUSED = {"test_refused_with_other_modes": SYMMETRIC}
ece = expected_calibration_error
NAMES = np.array(["leave", "stay"])


def problem(n_samples=300):
    """Return labels and overconfident probabilities, whose complements are exact."""
    rng = np.random.default_rng(0)
    positive = rng.integers(320, 704, n_samples) / 1024
    is_positive = rng.random(n_samples) < 0.9 - positive
    return NAMES[is_positive.astype(int)], np.column_stack([1 - positive, positive])


def swap(y_true):
    """Return the labels with their names exchanged."""
    return np.where(y_true == "leave", "stay", "leave")


def of_positive(metric):
    """Return the option with which a metric evaluates one of two columns."""
    if metric.name in SYMMETRIC:
        return {}
    return {"mode": "positive" if "positive" in modes_of(metric.func) else "canonical"}


def modes_to_set(metric):
    """Return the options of a call with `pos_label`, which sets the mode by itself."""
    return of_positive(metric) if "mode" in metric.keywords else {}


def test_every_metric_has_the_label():
    for name in HELD:
        assert "pos_label" in inspect.signature(vars(metrics)[name]).parameters, name


def test_second_label_is_the_default(metric):
    y_true, y_proba = problem()
    options = {"pos_label": "stay", **modes_to_set(metric)}
    for given in (y_proba, y_proba[:, 1]):
        expected = metric(y_true == "stay", given, **of_positive(metric))
        assert_array_equal(metric(y_true, given, **options), expected)


def test_first_label_swaps_the_classes(metric):
    y_true, y_proba = problem()
    options = {"pos_label": "leave", **modes_to_set(metric)}
    reverse = y_proba[:, ::-1]
    swapped = y_true == "leave"
    expected = metric(swapped, y_proba[:, 0], **of_positive(metric))
    for given in (y_proba[:, 0], y_proba[:, :1]):
        assert_array_equal(metric(y_true, given, **options), expected)
    is_symmetric = metric.name in SYMMETRIC
    given = (y_true, y_proba) if is_symmetric else (swapped, reverse)
    expected = metric(*given, **of_positive(metric))
    assert_array_equal(metric(y_true, y_proba, **options), expected)
    if not is_symmetric:
        reordered = metric(y_true, reverse, labels=NAMES[::-1], **options)
        assert_array_equal(reordered, expected)


def test_refused_with_other_modes(default):
    message = "pos_label must be None unless .* got 'leave' with mode='top_label' and 2"
    y_true, y_proba = problem()
    with pytest.raises(ValueError, match=message):
        default(y_true, y_proba, mode="top_label", pos_label="leave")
    given = y_true == "leave", y_proba[:, 0]
    value = default(y_true, given[1], mode="top_label", pos_label="leave")
    assert_array_equal(value, default(*given, mode="top_label"))


def test_refused_with_more_classes(default):
    three = np.full((3, 3), 1 / 3), {"labels": ["leave", "other", "stay"]}
    with pytest.raises(ValueError, match="got 'stay' with mode=None and 3 classes"):
        default(three[1]["labels"], three[0], pos_label="stay", **three[1])


def test_class_of_one_column_is_told(default):
    """Only if the order of the labels is that of their names, and none is declared."""
    y_true, y_proba = problem(60)
    column = y_proba[:, 1]
    for given in (column, y_proba[:, 1:]):
        with pytest.warns(UserWarning, match="The class is taken to be 'stay'") as told:
            value = default(y_true, given)
        assert len(told) == 1
        assert_array_equal(value, default(y_true, given, pos_label="stay"))
        assert_array_equal(value, default(y_true, given, labels=NAMES))
    default(y_true == "stay", column)
    default(np.where(y_true == "stay", 2, 1).astype(object), column)
    default(y_true, y_proba)


def test_class_of_one_column_is_told_once():
    """Not for each of several metrics, draws or models."""
    y_true, y_proba = problem(12)
    given = y_true, y_proba[:, 1]
    few = {"n_resamples": 3, "random_state": 0}
    metrics_of_groups = {"a": ece, "b": log_loss}
    for function, args in (
        (partial(per_group, groups=np.arange(12) % 2), (metrics_of_groups, *given)),
        (partial(difference_test, **few), (log_loss, *given, given[1])),
        (partial(bootstrap_interval, **few), (lambda y, p: ece(y, p), *given)),
    ):
        with pytest.warns(UserWarning, match="class is taken to be 'stay'") as told:
            function(*args)
        assert len(told) == 1
    first = partial(worst_group, partial(ece, pos_label="leave"), groups=np.zeros(12))
    expected = consistency_test(ece, y_true == "leave", given[1], **few)[2]
    assert_array_equal(consistency_test(first, *given, **few)[2], expected)


def test_unknown_label(default):
    message = r"pos_label must be one of \['leave', 'stay'\], got 'Stay'. Pass the"
    with pytest.raises(ValueError, match=message):
        default(*problem(), pos_label="Stay")


OF_METRICS = [
    expected_calibration_error,
    ks_calibration_error,
    smooth_calibration_error,
    partial(net_benefit_score, threshold=0.3),
    classwise_calibration_error,
]


def per_group_values(metric, y_true, y_proba, **options):
    groups = np.arange(len(y_proba)) % 2
    table = per_group(metric, y_true, y_proba, groups=groups, **options)
    worst = worst_group(metric, y_true, y_proba, groups=groups)
    return [*table["value"], *table["low"], worst]


@pytest.mark.parametrize("measure", OF_METRICS)
@pytest.mark.parametrize(
    "function",
    [
        partial(bootstrap_interval, n_resamples=6, random_state=0),
        partial(per_group_values, confidence_level=0.9, n_resamples=3, random_state=0),
        lambda *args: consistency_test(*args, n_resamples=6, random_state=0)[:2],
    ],
)
def test_functions_of_metrics(measure, function):
    """Also where they draw labels from the probabilities, or compute the error."""
    y_true, y_proba = problem(12)
    expected = function(measure, y_true == "leave", y_proba[:, 0])
    first = partial(measure, pos_label="leave")
    assert_array_equal(function(first, y_true, y_proba[:, 0]), expected)


def test_intervals_of_two_columns_of_all_classes():
    y_true, y_proba = problem(12)
    draws = {"n_resamples": 6, "random_state": 0}
    expected = bootstrap_interval(classwise_calibration_error, y_true, y_proba, **draws)
    first = partial(classwise_calibration_error, pos_label="leave")
    assert bootstrap_interval(first, y_true, y_proba, **draws) == expected


@pytest.mark.parametrize("measure", [*OF_METRICS[:2], *OF_METRICS[3:]])
def test_difference_of_models(measure):
    y_true, y_proba = problem()
    y_other = np.column_stack([y_proba[:, 0] ** 2, 1 - y_proba[:, 0] ** 2])
    options = {"n_resamples": 6, "random_state": 0}
    models = y_proba[:, 0], y_other[:, 0]
    expected = difference_test(measure, y_true == "leave", *models, **options)
    first = partial(measure, pos_label="leave")
    for given in (models, (y_proba, y_other)):
        assert difference_test(first, y_true, *given, **options) == expected


def evaluates_the_positive_class(name):
    try:
        get_scorer(name, pos_label="stay")
    except ValueError:
        return False
    return True


SCORERS = [name for name in get_scorer_names() if evaluates_the_positive_class(name)]


@pytest.mark.parametrize("name", SCORERS)
def test_scorers(name):
    y_true, y_proba = problem()
    X = y_proba[:, 1:] + np.linspace(0, 0.1, len(y_true))[:, None]
    model = LogisticRegression().fit(X, y_true)
    other = LogisticRegression().fit(X, swap(y_true))
    groups = {"groups": np.arange(len(y_true)) % 2} if "multi" in name else {}
    with config_context(enable_metadata_routing=True):
        expected = get_scorer(name)(model, X, y_true, **groups)
        second = get_scorer(name, pos_label="stay")
        assert second(model, X, y_true, **groups) == expected
        first = get_scorer(name, pos_label="leave")(model, X, y_true, **groups)
        swapped = get_scorer(name)(other, X, swap(y_true), **groups)
        assert first == pytest.approx(swapped, rel=1e-4, abs=1e-6)
        assert get_scorer(name)(model, X, y_true, **groups) == expected


def test_scorers_in_compare():
    y_true, y_proba = problem(24)
    scorer = get_scorer("neg_ici", pos_label="leave")
    table = compare(
        {"a": y_proba}, None, y_true, metrics={"ici": scorer}, n_resamples=9
    )
    expected = integrated_calibration_index(y_true, y_proba, pos_label="leave")
    assert table.loc["a", ("ici", "value")] == expected


@pytest.mark.parametrize("scoring", ["neg_ece", "neg_log_loss", get_scorer("neg_ici")])
def test_scorers_without_a_positive_class(scoring):
    assert SCORERS  # these are named
    message = r"pos_label must be None unless scoring is one of .*'neg_ici'.*got 'a'"
    with pytest.raises(ValueError, match=message):
        get_scorer(scoring, pos_label="a")


@pytest.mark.parametrize("measure", [expected_calibration_error, OF_METRICS[3]])
def test_accumulators_refuse_the_label(measure):
    y_true, y_proba = problem()
    sums = CalibrationAccumulator(labels=NAMES, mode="positive").update(y_true, y_proba)
    message = "pos_label must not be given.*the positive class is the second of its"
    with pytest.raises(ValueError, match=message):
        sums.compute(measure, pos_label="leave")
