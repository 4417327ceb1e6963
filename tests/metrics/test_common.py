"""Laws that hold for every metric. New metrics are included automatically."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_calib import metrics

# Exceptions by the name of a test, with the reason; see conftest.py.
SEVERAL = {
    "calibration_belt_test": "a statistic, its p-value and a degree",
    "calibration_slope": "several parameters",
    "ece_interval": "two ends",
    "hosmer_lemeshow_test": "a statistic and its p-value",
    "kernel_calibration_test": "a statistic and its p-value",
    "net_benefit_curve": "curves",
    "recalibration_test": "a statistic and its p-value",
    "risk_coverage_curve": "a curve",
    "score_decomposition": "parts, some of which are better high",
    "spiegelhalter_test": "a statistic and its p-value",
    "tcal_test": "a statistic and its p-value",
}
WITHOUT_WEIGHTS = {
    "hosmer_lemeshow_test": "counts the samples of a bin",
    "kernel_calibration_test": "compares with draws of as many samples",
    "tcal_test": "compares with draws of as many samples",
}
EFFECTIVE = "a temperature is mixed with equal probabilities by the effective size"
RANKED = "is undefined where nothing is to be ranked, and says so"
MIXED = "recalibration mixes with equal probabilities, which perfect ones pay for"
WORTH_LESS = "weights are worth fewer samples than repetitions are"
EXCUSED = {
    "test_takes_labels_and_weights": WITHOUT_WEIGHTS,
    "test_weights_of_one_are_no_weights": WITHOUT_WEIGHTS,
    "test_weights_of_zero_are_absence": {
        **WITHOUT_WEIGHTS,
        "ece_interval": "draws for one row after the other",
    },
    "test_weights_are_repetitions": {
        **WITHOUT_WEIGHTS,
        "calibration_belt_test": WORTH_LESS,
        "calibration_slope": WORTH_LESS,
        "recalibration_test": WORTH_LESS,
        "proper_calibration_error": EFFECTIVE,
        "refinement_error": EFFECTIVE,
        "refinement_error(loss='brier')": EFFECTIVE,
        "score_decomposition(loss='log', recalibration='temperature')": EFFECTIVE,
        "ece_interval": WORTH_LESS,
        "spiegelhalter_test": WORTH_LESS,
        "variational_calibration_error": "copies may be in different folds",
    },
    "test_is_one_number_in_its_range": {**SEVERAL, "failure_auroc_score": RANKED},
    "test_order_of_rows_does_not_matter": {
        "ece_interval": "draws for one row after the other",
        "hosmer_lemeshow_test": "draws for one row after the other",
        "kernel_calibration_test": "draws for one row after the other",
        "tcal_test": "draws for one row after the other",
        "variational_calibration_error": "divides one row after the other",
    },
    "test_classes_in_another_order": {
        "calibration_slope(mode='classwise')": "has a number for each class",
        "calibration_slope(mode='multinomial')": "has a number for each class",
        "recalibration_test": "depends on the reference class",
        "hosmer_lemeshow_test": "draws one class after the other",
        "kernel_calibration_test": "draws one class after the other",
        "tcal_test": "draws one class after the other",
    },
    "test_absent_class": {
        "calibration_slope(mode='classwise')": "is not defined for the absent class",
        "calibration_slope(mode='multinomial')": "is not defined",
        "recalibration_test": "is not defined",
    },
    "test_perfect_predictions_are_the_best": {
        **SEVERAL,
        "failure_auroc_score": RANKED,
        "integrated_calibration_index": "certain predictions get finite log-odds",
        "proper_calibration_error": MIXED,
        "refinement_error": MIXED,
        "refinement_error(loss='brier')": MIXED,
    },
    "test_certain_and_wrong_is_bad": {
        **SEVERAL,
        "coverage_at_risk": "is a coverage, which is better high",
        "excess_aurc_loss": "compares rankings, of which any is as good",
        "failure_auroc_score": RANKED,
        "net_benefit_score": "is a benefit, which is better high",
    },
}
# The ranking is undefined if all predictions are correct or all are wrong, and few
# samples make sparse bins.
pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.UndefinedMetricWarning",
    "ignore:hosmer_lemeshow_test may reject",
)

# Range of a metric or of a setting if it is not [0, 1], for up to five classes.
RANGES = {
    "aurc_loss(loss='log')": (0, 37),
    "averaged_two_bin_error": (0, 2),
    "classwise_calibration_error(average='sum')": (0, 5),
    "kde_calibration_error(mode='canonical', bandwidth=0.1)": (0, 2),
    "kde_calibration_error(mode='classwise', bandwidth=0.1)": (0, 5),
    "kernel_calibration_error": (0, 2**0.5),
    "multicalibration_error(scale='noise')": (0, np.inf),
    "net_benefit_score": (-0.25, 1),
    "post_processing_gap": (0, 4),
    "post_processing_gap(loss='focal')": (0, 37),
    "post_processing_gap(loss='focal_calibration')": (0, 39),
    "post_processing_gap(loss='squared')": (0, 1),
    "proper_calibration_error": (-1, 37),
    "proper_calibration_error(loss='brier', recalibration='isotonic')": (0, 2),
    "quantile_squared_error": (0, 2),
    "refinement_error": (0, 37),
    "refinement_error(loss='brier')": (0, 2),
    "refinement_error(loss='brier', recalibration='bins')": (0, 2),
    "root_brier_score_loss": (0, 2**0.5),
    "variational_calibration_error": (-2, 2),
}
# Value for perfect predictions if it is not 0, or 1 for a score.
BEST = {"coverage_at_risk": 1}
# What certain and wrong predictions have at least, where it is not one half. Of each
# class a third of the samples is wrong at either end, which a bandwidth that is as
# large smoothes out in part. Of the best increasing function, which is 1 / 3, two
# thirds of them are 1 / 3 away and one third 2 / 3. Lipschitz weights at 0 and 1 differ
# by 1 at most, and apply to a third of the samples each.
AT_WORST = {
    "classwise_calibration_error(strategy='isotonic')": 0.44,
    "smooth_calibration_error(mode='classwise')": 0.33,
    "smooth_expected_calibration_error(mode='classwise')": 0.39,
}


@st.composite
def problems(draw):
    """Draw true columns, and probabilities with ties and values at bin edges."""
    n_samples, n_classes = draw(st.integers(1, 25)), draw(st.integers(2, 5))
    shape = (n_samples, n_classes)
    counts = draw(hnp.arrays(int, shape, elements=st.integers(0, 4)))
    counts[:, 0] += counts.sum(axis=1) == 0
    codes = draw(hnp.arrays(int, n_samples, elements=st.integers(0, n_classes - 1)))
    return codes, counts / counts.sum(axis=1, keepdims=True)


@st.composite
def problems_and(draw, strategy):
    """Draw a problem, and what the strategy has for its number of samples."""
    codes, proba = draw(problems())
    return codes, proba, draw(strategy(len(codes)))


def for_drawn(strategy):
    """Run a law for examples that are drawn once for all metrics.

    If it fails, it is run as a test of Hypothesis, which searches for a small example.
    """

    @cache
    def examples():
        found = []
        given(strategy)(lambda example: found.append(example))()
        return found

    def decorate(law):
        def run(metric):
            try:
                for example in examples():
                    law(metric, *example)
            except Exception:
                given(strategy)(lambda example: law(metric, *example))()
                raise

        run.__name__, run.__doc__ = law.__name__, law.__doc__
        return run

    return decorate


def random_problem(n_samples=80, n_classes=4):
    """Return a problem with every class, without ties or values at bin edges."""
    rng = np.random.default_rng(0)
    codes = np.arange(n_samples) % n_classes
    return codes, rng.dirichlet(np.ones(n_classes), size=n_samples)


@cache
def value_of_random_problem(metric):
    return metric(*random_problem())


def of(metric, table, default):
    """Return the row of a table for a setting, or for its metric."""
    return table.get(str(metric), table.get(metric.name, default))


def test_the_excused_exist(known):
    named = {name for reasons in EXCUSED.values() for name in reasons}
    assert named | {*RANGES} | {*BEST} | {*AT_WORST} <= known
    assert all(callable(globals().get(test)) for test in EXCUSED)


def test_every_public_name_is_held_to_the_laws(known, not_held):
    """A public function takes y_true and y_proba first, or is listed with a reason."""
    rows = [
        f'    "{name}": "...",  # why it is not a metric of y_true and y_proba'
        for name in metrics.__all__
        if name not in known | {*not_held}
    ]
    if rows:
        rows.insert(0, "Add to NOT_HELD in tests/metrics/conftest.py:")
        pytest.fail("\n".join(rows), pytrace=False)
    assert {*not_held} <= {*metrics.__all__} - known


def test_takes_labels_and_weights(default):
    assert {"labels", "sample_weight"} <= {*default.parameters}


def test_options_are_keywords(default):
    options = list(default.parameters.values())[2:]
    assert all(option.kind is option.KEYWORD_ONLY for option in options)


@for_drawn(problems())
def test_is_one_number_in_its_range(metric, codes, proba):
    options = {**metric.keywords, "labels": range(proba.shape[1])}
    value = metric.func(codes, proba, **options)
    assert type(value) is float
    low, high = of(metric, RANGES, (0, 1))
    assert low - 1e-12 <= value <= high + 1e-12


@for_drawn(problems_and(lambda n: st.permutations(range(n))))
def test_order_of_rows_does_not_matter(metric, codes, proba, order):
    labels = range(proba.shape[1])
    expected = metric(codes, proba, labels=labels)
    value = metric(codes[order], proba[order], labels=labels)
    assert_allclose(value, expected, rtol=1e-6, atol=1e-12)


@for_drawn(problems_and(lambda n: hnp.arrays(int, n, elements=st.integers(0, 3))))
def test_weights_are_repetitions(metric, codes, proba, times):
    """A weight of two is equivalent to including the sample twice."""
    labels = range(proba.shape[1])
    times = times + (np.arange(len(times)) == 0)
    repeated = codes.repeat(times), proba.repeat(times, axis=0)
    value = metric(codes, proba, labels=labels, sample_weight=times)
    assert_allclose(value, metric(*repeated, labels=labels), rtol=1e-6, atol=1e-12)


@for_drawn(problems_and(lambda n: hnp.arrays(bool, n, elements=st.booleans())))
def test_weights_of_zero_are_absence(metric, codes, proba, kept):
    labels = range(proba.shape[1])
    kept = kept | (np.arange(len(kept)) == 0)
    value = metric(codes, proba, labels=labels, sample_weight=kept.astype(float))
    expected = metric(codes[kept], proba[kept], labels=labels)
    assert_allclose(value, expected, rtol=1e-6, atol=1e-12)


def test_weights_of_one_are_no_weights(metric):
    codes, proba = random_problem()
    value = metric(codes, proba, sample_weight=np.ones(len(codes)))
    assert_allclose(value, value_of_random_problem(metric), rtol=1e-12)


def test_is_repeatable(metric):
    value = metric(*random_problem())
    assert_array_equal(value, value_of_random_problem(metric))


def test_classes_in_another_order(metric):
    """The same permutation of columns and labels does not change the value."""
    codes, proba = random_problem()
    order = [2, 0, 3, 1]
    value = metric(codes, proba[:, order], labels=order)
    assert_allclose(value, value_of_random_problem(metric), rtol=1e-9)


def test_absent_class(metric):
    """An absent class is an error without `labels`, and not an error with them."""
    codes, proba = random_problem(n_classes=3)
    codes = np.where(codes == 1, 2, codes)
    with pytest.raises(ValueError, match=r"got \[0, 2\]\. Pass labels="):
        metric(codes, proba)
    assert np.isfinite(metric(codes, proba, labels=[0, 1, 2])).all()


def test_one_column_is_the_positive_class(metric):
    """(n, 1) is (n,), and both columns say the same, of the positive class or of all.

    Without a mode a metric of one probability takes that of the positive class from a
    single column, and that of the predicted class from two.
    """
    codes, proba = random_problem(n_classes=2)
    value = metric(codes, proba[:, 1])
    assert_array_equal(metric(codes, proba[:, [1]]), value)
    mode = metric.parameters.get("mode")
    is_open = mode and mode.default is None and "mode" not in metric.keywords
    options = {"mode": "positive"} if is_open else {}
    assert_allclose(metric(codes, proba, **options), value, rtol=1e-9)


def test_perfect_predictions_are_the_best(metric):
    codes = np.arange(30) % 3
    best = of(metric, BEST, float(metric.name.endswith("_score")))
    assert_array_equal(metric(codes, np.eye(3)[codes]), [best])


def test_certain_and_wrong_is_bad(metric):
    """The value of an error is at least half of the worst, which is 1."""
    codes = np.arange(30) % 3
    (value,) = metric(codes, np.eye(3)[(codes + 1) % 3])
    assert value >= of(metric, AT_WORST, 0.5)
