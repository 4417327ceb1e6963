"""All functions that take a metric pass their other keyword arguments to it."""

import inspect
from dataclasses import dataclass
from functools import partial
from importlib import import_module

import numpy as np
import pytest
from sklearn.metrics import make_scorer

from sklearn_calib.deployment import (
    estimate_performance,
    label_shift_calibration_error,
)
from sklearn_calib.evaluation import compare
from sklearn_calib.metrics import (
    CalibrationAccumulator,
    aurc_loss,
    bootstrap_interval,
    calibration_slope,
    consistency_test,
    difference_test,
    expected_calibration_error,
    get_scorer,
    kernel_calibration_error,
    net_benefit_score,
    per_group,
    per_label,
    spiegelhalter_test,
    worst_group,
)

RNG = np.random.default_rng(0)
P = RNG.integers(1, 10, size=30) / 10
Y = (RNG.uniform(size=30) < P).astype(int)
GROUPS = np.arange(30) % 2
FEW = {"n_resamples": 3, "random_state": 0}
CELLS = CalibrationAccumulator(labels=[0, 1], mode="positive").update(Y, P)


def _label_shift(y_true, y_proba, new, metric, **options):
    return label_shift_calibration_error(
        y_true, y_proba, new, metric=metric, train_priors=[0.4, 0.6], **options
    )


# Calls of a function with a metric and options.
ONE = {
    "CalibrationAccumulator.compute": CELLS.compute,
    "CalibrationAccumulator.consistency_bound": partial(CELLS.consistency_bound, **FEW),
    "CalibrationAccumulator.error_bound": CELLS.error_bound,
    "CalibrationAccumulator.interval": partial(CELLS.interval, **FEW),
    "bootstrap_interval": partial(bootstrap_interval, y_true=Y, y_proba=P, **FEW),
    "consistency_test": partial(consistency_test, y_true=Y, y_proba=P, **FEW),
    "difference_test": partial(
        difference_test, y_true=Y, y_proba_a=P, y_proba_b=P**2, **FEW
    ),
    "label_shift_calibration_error": partial(
        _label_shift, Y, P, np.repeat(P > 0.5, 20) * 1.0
    ),
    "per_group": partial(per_group, y_true=Y, y_proba=P, groups=GROUPS),
    "per_label": partial(per_label, y_true=np.c_[Y, 1 - Y], y_proba=np.c_[P, 1 - P]),
    "worst_group": partial(worst_group, y_true=Y, y_proba=P, groups=GROUPS),
}
# Its metric is a scorer, which has its options.
OF_SCORERS = {"estimate_performance"}
SEVERAL = {"compare": partial(compare, {"stored": P}, None, Y, n_resamples=0)}


def numbers(result):
    parts = result if isinstance(result, tuple) else (result,)
    return np.concatenate([np.ravel(part) for part in parts])


def owners():
    """Yield the public names, and public methods, with their functions."""
    for topic in ("calibrators", "deployment", "displays", "evaluation", "metrics"):
        module = import_module(f"sklearn_calib.{topic}")
        for name in module.__all__:
            thing = getattr(module, name)
            yield name, thing
            if inspect.isclass(thing):
                for attribute, method in inspect.getmembers(thing, inspect.isfunction):
                    if not attribute.startswith("_"):
                        yield f"{name}.{attribute}", method


def test_all_functions_that_take_a_metric_are_held_to_these_laws():
    found = {
        name
        for name, thing in owners()
        if callable(thing)
        and {"metric", "metrics"} & {*inspect.signature(thing).parameters}
    }
    assert found == {*ONE, *SEVERAL, *OF_SCORERS}


@pytest.mark.parametrize("name", ONE)
def test_options_are_those_of_a_partial(name):
    expected = numbers(ONE[name](partial(aurc_loss, estimator="population")))
    value = numbers(ONE[name](aurc_loss, estimator="population"))
    np.testing.assert_array_equal(value, expected)
    assert not np.array_equal(value, numbers(ONE[name](aurc_loss)))


@pytest.mark.parametrize("name", ONE)
def test_an_option_that_the_metric_does_not_have(name):
    match = r"options of aurc_loss must be among .* got 'estimater'.* 'estimator'\?"
    with pytest.raises(TypeError, match=match):
        ONE[name](aurc_loss, estimater="population")
    with pytest.raises(TypeError, match=match):
        ONE[name](partial(aurc_loss, estimater="population"))


@pytest.mark.parametrize("name", [name for name in ONE if "error_bound" not in name])
def test_an_option_that_is_not_given(name):
    with pytest.raises(TypeError, match=r"threshold must be .* of net_benefit_score"):
        ONE[name](net_benefit_score)


@pytest.mark.parametrize("name", ONE)
def test_a_wrong_value_of_an_option(name):
    with pytest.raises(ValueError, match=r"'estimator' param.* Got 'median'"):
        ONE[name](aurc_loss, estimator="median")


def test_options_of_the_function_itself_are_suggested():
    for function in (ONE["bootstrap_interval"], SEVERAL["compare"]):
        given = {} if function is SEVERAL["compare"] else {"metric": aurc_loss}
        with pytest.raises(TypeError, match=r"Did you mean 'n_resamples'\?"):
            function(**given, n_resample=5)


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize(
    "metric",
    [
        "neg_aurc",
        [aurc_loss, expected_calibration_error],
        {"a": aurc_loss},
        get_scorer("neg_aurc"),
        None,
    ],
)
def test_several_metrics_and_scorers_are_refused(name, metric):
    match = r"functools\.partial\(metric, estimator='population'\)"
    with pytest.raises(TypeError, match=match):
        ONE[name](metric, estimator="population")
    takes = {"difference_test": str, "per_group": dict}
    if not isinstance(metric, takes.get(name, ())):
        with pytest.raises(TypeError, match="metric must be a function of labels"):
            ONE[name](metric)


@pytest.mark.parametrize("metrics", [["neg_aurc"], {"a": aurc_loss}])
def test_options_for_several_metrics(metrics):
    match = r"dict of metrics, .*functools\.partial\(metric, threshold=0\.3\)"
    with pytest.raises(TypeError, match=match):
        compare({"stored": P}, None, Y, metrics=metrics, threshold=0.3)
    if isinstance(metrics, dict):
        with pytest.raises(TypeError, match=match):
            ONE["per_group"](metrics, threshold=0.3)


def brier_score_loss(y_true, y_proba, *, sample_weight=None):
    """Return the Brier score, without the checks that make draws slow."""
    positive = np.reshape(y_proba, (len(y_true), -1))[:, -1]
    return np.average((np.asarray(y_true) - positive) ** 2, weights=sample_weight)


class Power:
    """A metric that is not a function."""

    def __call__(self, y_true, y_proba, *, power=2, sample_weight=None):
        gap = np.abs(np.asarray(y_true) - y_proba)
        return float(np.average(gap**power, weights=sample_weight))


@pytest.mark.parametrize("name", [name for name in ONE if "error_bound" not in name])
def test_a_metric_of_ones_own(name):
    value = numbers(ONE[name](Power(), power=2))
    np.testing.assert_allclose(value, numbers(ONE[name](brier_score_loss)))
    with pytest.raises(TypeError, match=r"options of Power must be .*'power'\?"):
        ONE[name](Power(), powr=2)


INTERVALS = {"confidence_level": 0.9, **FEW}
WITHOUT_WEIGHTS = {
    "per_group with intervals": partial(ONE["per_group"], **INTERVALS),
    "per_label with intervals": partial(ONE["per_label"], **INTERVALS),
    "compare": lambda metric: compare(
        {"stored": P}, None, Y, metrics={"a": metric}, **FEW
    ).to_numpy(),
    "compare with a scorer": lambda metric: compare(
        {"stored": P}, None, Y, metrics={"a": lambda _, X, y: metric(y, X)}, **FEW
    ).to_numpy(),
    **{
        name: call
        for name, call in ONE.items()
        if "Accumulator" not in name and "shift" not in name  # they need weights
    },
}


@pytest.mark.parametrize("name", WITHOUT_WEIGHTS)
def test_a_metric_without_weights(name):
    """Its draws repeat samples, and have the values of their weights."""
    value = numbers(WITHOUT_WEIGHTS[name](lambda y, p: brier_score_loss(y, p)))
    expected = WITHOUT_WEIGHTS[name.removesuffix(" with a scorer")](brier_score_loss)
    np.testing.assert_allclose(value, numbers(expected))


def test_weights_for_a_metric_without_them():
    def own(y, p):
        return float(np.mean(y == p))

    match = "metric must have the parameter sample_weight .*'own'. Add the"
    weight = {"sample_weight": np.ones(30)}
    for name in ("bootstrap_interval", "consistency_test", "per_group", "worst_group"):
        with pytest.raises(TypeError, match=match):
            ONE[name](partial(own), **weight)
    with pytest.raises(TypeError, match=match):
        ONE["label_shift_calibration_error"](own)
    for metric in (own, make_scorer(own), lambda _, X, y: own(y, X)):
        with pytest.warns(UserWarning, match="parameter sample_weight"):
            compare({"stored": P}, None, Y, metrics={"a": metric}, **weight)


@pytest.mark.parametrize("name", [name for name in ONE if "_bound" not in name])
def test_a_metric_that_returns_several_numbers(name):
    """The largest of a statistic and a p-value has no meaning."""
    if name == "CalibrationAccumulator.compute":
        assert len(ONE[name](spiegelhalter_test)) == 2
        return
    match = r"metric must return a number, got .*\)\[0\]"
    with pytest.raises(TypeError, match=match):
        ONE[name](spiegelhalter_test)
    if "Accumulator" not in name:
        with pytest.raises(TypeError, match=match):
            ONE[name](calibration_slope)  # of arrays and numbers


def test_a_scorer_that_returns_several_numbers():
    match = "metric must return a number, got"
    with pytest.raises(TypeError, match=match):
        estimate_performance(P, metric=lambda _, X, y: spiegelhalter_test(y, X), **FEW)
    with pytest.warns(UserWarning, match=match):
        SEVERAL["compare"](metrics={"a": spiegelhalter_test})


def test_options_beside_the_metric_of_a_partial():
    """They decide on the interval as those of the metric itself."""
    labels, proba = np.c_[Y, 1 - Y], np.c_[P, 1 - P]
    values = [
        bootstrap_interval(metric, labels, proba, **FEW)
        for metric in (
            partial(per_label, kernel_calibration_error, squared=True),
            partial(per_label, partial(kernel_calibration_error, squared=True)),
        )
    ]
    assert values[0] == values[1]


@dataclass
class Brier:
    """Brier score as a function of the probability of one of two labels."""

    label: int = 1

    def __call__(self, y_true, y_proba):
        return float(np.mean(((y_true == self.label) - y_proba) ** 2))


def test_metrics_that_cannot_be_hashed():
    expected = bootstrap_interval(Brier().__call__, Y, P, **FEW)
    assert bootstrap_interval(Brier(), Y, P, **FEW) == expected
