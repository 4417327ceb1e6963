"""Confidence intervals of any metric, compared with theory and with SciPy."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from joblib import parallel_config
from scipy.stats import bootstrap
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import (
    average_precision_score,
    brier_score_loss,
    log_loss,
    roc_auc_score,
)
from threadpoolctl import ThreadpoolController

from sklearn_calib.metrics import (
    augrc_loss,
    aurc_loss,
    bootstrap_interval,
    coverage_at_risk,
    excess_aurc_loss,
    expected_calibration_error,
    failure_auroc_score,
    fpr_at_tpr,
    ks_calibration_error,
    ood_aupr_score,
    ood_auroc_score,
    ood_detection_error,
    overconfidence,
    per_label,
    refinement_error,
    risk_at_coverage,
    root_brier_score_loss,
    underconfidence,
)
from sklearn_calib.metrics._draws import take_sample

OTHERS = {
    "augrc": augrc_loss,
    "aurc": aurc_loss,
    "auroc": roc_auc_score,
    "average-precision": average_precision_score,
    "brier": brier_score_loss,
    "coverage-at-risk": partial(coverage_at_risk, max_risk=0.15),
    "excess-aurc": excess_aurc_loss,
    "failure-auroc": failure_auroc_score,
    "log-loss": log_loss,
    "refinement": refinement_error,
    "risk-at-coverage": partial(risk_at_coverage, coverage=0.8),
    "root-brier": root_brier_score_loss,
}
TWO_SAMPLES = [fpr_at_tpr, ood_aupr_score, ood_auroc_score, ood_detection_error]
METHODS = ["percentile", "basic", "bca"]
all_methods = pytest.mark.parametrize("method", METHODS)


def draw(rng, shift=0.0, n_samples=150):
    """Draw labels, and probabilities that are too high by `shift`."""
    proba = rng.uniform(0.02, 1, size=n_samples)
    return (rng.uniform(size=n_samples) < proba - shift).astype(int), proba


def draw_classes(rng, n_samples=90, n_classes=3):
    proba = rng.dirichlet(np.ones(n_classes), size=n_samples)
    labels = (rng.uniform(size=(n_samples, 1)) > proba.cumsum(axis=1)).sum(axis=1)
    return labels, proba


def share(y_true, *_, sample_weight):
    """Fraction of the positive class."""
    return np.average(y_true, weights=sample_weight)


def loss(y_true, y_proba, *, sample_weight=None):
    """Mean of a skewed function of each sample."""
    square = (y_true - y_proba) ** 2
    weight = np.ones(len(square)) if sample_weight is None else sample_weight
    return weight @ square**2 / weight.sum()


@pytest.mark.slow
@pytest.mark.parametrize("metric", OTHERS.values(), ids=OTHERS)
@all_methods
def test_other_metrics_hold_their_value(metric, method):
    y_true, y_proba = draw(np.random.default_rng(0), n_samples=60)
    low, high = bootstrap_interval(
        metric, y_true, y_proba, method=method, n_resamples=50, random_state=0
    )
    assert low < metric(y_true, y_proba) < high


@pytest.mark.parametrize("measure", [overconfidence, underconfidence])
def test_posteriors_in_place_of_labels(measure):
    rng = np.random.default_rng(0)
    posterior, proba = rng.dirichlet(np.ones(3), size=(2, 100))
    low, high = bootstrap_interval(
        measure, posterior, proba, n_resamples=30, random_state=0
    )
    assert low < measure(posterior, proba) < high


@pytest.mark.parametrize("metric", TWO_SAMPLES)
def test_two_samples_of_scores(metric):
    """The two samples are drawn independently."""
    rng = np.random.default_rng(0)

    def scores():
        return rng.normal(1, size=200), rng.normal(size=100)

    spread = np.std([metric(*scores()) for _ in range(60)])
    two = scores()
    low, high = bootstrap_interval(
        metric, *two, method="percentile", n_resamples=60, random_state=0
    )
    assert low < metric(*two) < high
    assert high - low == pytest.approx(2 * 1.96 * spread, rel=0.3)


@all_methods
@pytest.mark.parametrize("n_samples", [60, 500])
def test_same_as_scipy(method, n_samples):
    """The jackknife leaves out one sample, or a part for more than 100 samples."""
    y_true, y_proba = draw(np.random.default_rng(1), n_samples=n_samples)
    ours = bootstrap_interval(
        loss, y_true, y_proba, method=method, n_resamples=2500, random_state=0
    )
    theirs = bootstrap(
        ((y_true - y_proba) ** 4,),
        np.mean,
        method=method,
        n_resamples=2500,
        random_state=np.random.default_rng(0),
    ).confidence_interval
    assert ours == pytest.approx(theirs, abs=0.04 * (theirs[1] - theirs[0]))


def test_width_is_that_of_the_draws_of_samples():
    rng = np.random.default_rng(0)
    data = draw(rng, n_samples=300)
    low, high = bootstrap_interval(aurc_loss, *data, n_resamples=150, random_state=0)
    spread = np.std([aurc_loss(*draw(rng, n_samples=300)) for _ in range(150)])
    assert high - low == pytest.approx(2 * 1.96 * spread, rel=0.25)


@given(seed=st.integers(0, 1000), n_samples=st.integers(3, 30))
def test_a_draw_is_the_repeated_sample(seed, n_samples):
    y_true, y_proba = draw(np.random.default_rng(seed), n_samples=n_samples)
    sample = take_sample(
        loss, y_true, y_proba, None, np.full(n_samples, 2), stratify=False
    )
    drawn = sample.draw_all(seed)
    times = (drawn["weight"] / 2).astype(int)
    assert times.sum() == n_samples
    assert sample.measure(**drawn) == pytest.approx(
        loss(y_true.repeat(times), y_proba.repeat(times))
    )
    half = sample.draw_half(seed)["weight"]
    assert set(half) == {0, 2}
    assert (half > 0).sum() == (n_samples + 1) // 2


@settings(max_examples=10)
@given(order=st.permutations(range(3)))
def test_order_of_classes_does_not_matter(order):
    labels, proba = draw_classes(np.random.default_rng(0), n_samples=12)
    options = {"n_resamples": 5, "random_state": 0}
    assert bootstrap_interval(
        aurc_loss, labels, proba[:, order], labels=order, **options
    ) == pytest.approx(bootstrap_interval(aurc_loss, labels, proba, **options))


@pytest.mark.parametrize("metric", [aurc_loss, ks_calibration_error])
@pytest.mark.parametrize("stratify", [False, True])
def test_names_of_classes_do_not_matter(metric, stratify):
    labels, proba = draw_classes(np.random.default_rng(0), n_samples=12)
    options = {"n_resamples": 5, "random_state": 0, "stratify": stratify}
    expected = bootstrap_interval(metric, labels, proba, **options)
    named = np.array(["ash", "elm", "oak"])[labels]
    assert bootstrap_interval(metric, named, proba, **options) == expected
    assert bootstrap_interval(metric, list(named), list(proba), **options) == expected
    assert bootstrap_interval(metric, labels[:, None], proba, **options) == expected


@pytest.mark.parametrize(
    "metric", [brier_score_loss, expected_calibration_error, ks_calibration_error]
)
def test_scale_of_weights_does_not_matter(metric):
    data = draw(np.random.default_rng(0), n_samples=20)
    options = {"n_resamples": 8, "random_state": 0}
    expected = bootstrap_interval(metric, *data, **options)
    for weight in (1, 0.25):
        weighted = bootstrap_interval(
            metric, *data, sample_weight=np.full(20, weight), **options
        )
        assert weighted == pytest.approx(expected, rel=1e-9)


def test_few_samples_with_most_of_the_weight():
    """They make the interval wider, like a smaller number of samples."""
    data, options = draw(np.random.default_rng(0)), {"random_state": 0}
    few = np.where(np.arange(150) % 10, 0.01, 1)
    low, high = bootstrap_interval(loss, *data, n_resamples=200, **options)
    wide = bootstrap_interval(
        loss, *data, n_resamples=200, sample_weight=few, **options
    )
    assert wide[1] - wide[0] > 1.5 * (high - low)


@pytest.mark.parametrize("method", [*METHODS, "debiased"])
def test_strata_keep_their_size(method):
    """A metric of class counts then has no variance, and it has variance otherwise."""
    y_true, y_proba = np.arange(60) % 4 < 2, np.linspace(0, 1, 60)
    options = {"method": method, "n_resamples": 20, "random_state": 0}
    interval = bootstrap_interval(share, y_true, y_proba, stratify=True, **options)
    assert interval[1] == pytest.approx(0.5)
    low, high = bootstrap_interval(share, y_true, y_proba, **options)
    assert high > 0.52
    if method != "debiased":  # which is for what calibrated labels might have made
        assert interval[0] == pytest.approx(0.5)
        assert low < 0.48


@pytest.mark.parametrize(
    "metric", [aurc_loss, ks_calibration_error, expected_calibration_error]
)
def test_jobs_do_not_matter(metric):
    data = draw_classes(np.random.default_rng(0), n_samples=12)
    options = {"n_resamples": 5, "random_state": 3}
    one = bootstrap_interval(metric, *data, **options)
    with parallel_config("threading"):
        assert bootstrap_interval(metric, *data, n_jobs=2, **options) == one
    assert bootstrap_interval(metric, *data, n_jobs=1, **options) == one
    options["random_state"] = np.random.RandomState(3)
    assert bootstrap_interval(metric, *data, **options) == one


def test_progress_is_reported(capfd):
    data = draw(np.random.default_rng(0))
    bootstrap_interval(loss, *data, n_resamples=10, random_state=0)
    assert capfd.readouterr() == ("", "")
    bootstrap_interval(loss, *data, n_resamples=10, random_state=0, verbose=10)
    assert "Parallel(n_jobs=1)]: Done" in "".join(capfd.readouterr())


def test_draws_use_one_thread_of_blas():
    """With more, small matrices take up to twenty times as long."""

    blas = ThreadpoolController().select(user_api="blas")
    seen = []

    def n_threads():
        return {each["num_threads"] for each in blas.info()}

    def metric(_, y_proba, *, sample_weight):
        seen.append(n_threads())
        return sample_weight @ y_proba

    with blas.limit(limits=2):
        before = n_threads()
        bootstrap_interval(metric, [0, 1], [0.2, 0.7], n_resamples=2, random_state=0)
        assert n_threads() == before
    assert seen[1:] == [{1}] * (len(seen) - 1)
    assert len(seen) > 2


def test_labels_that_are_rarely_drawn():
    """A class may be absent from drawn samples, by weights of 0 or by drawn labels."""
    y_true, proba = ["a"] * 9 + ["b"], np.full((10, 2), [0.95, 0.05])
    for metric in (ks_calibration_error, log_loss, aurc_loss):
        low, high = bootstrap_interval(
            metric, y_true, proba, n_resamples=30, random_state=0
        )
        assert low <= metric(y_true, proba) <= high


def test_undefined_draws_do_not_count():
    """A class with one sample is absent from a third of unstratified draws."""
    y_true, y_proba = [0, 0, 0, 0, 1], [0.1, 0.2, 0.3, 0.5, 0.4]
    options = {"n_resamples": 30, "random_state": 0, "method": "percentile"}
    for stratify in (False, True):
        low, high = bootstrap_interval(
            roc_auc_score, y_true, y_proba, stratify=stratify, **options
        )
        assert 0 <= low < 0.75 < high == 1


def test_one_warning_of_scikit_learn_for_a_class_that_is_not_drawn():
    y, proba = np.arange(30) < 2, np.random.default_rng(0).random(30)
    options = {"n_resamples": 60, "method": "percentile", "random_state": 0}

    def with_both_classes(y_true, y_proba, sample_weight):
        if not sample_weight[y_true].any():
            raise ValueError("no positive sample")
        return roc_auc_score(y_true, y_proba, sample_weight=sample_weight)

    with pytest.warns(UndefinedMetricWarning) as issued:
        interval = bootstrap_interval(roc_auc_score, y, proba, **options)
    assert len(issued) == 1
    assert interval == bootstrap_interval(with_both_classes, y, proba, **options)


def test_metric_that_never_varies():
    data = draw(np.random.default_rng(0))
    for method in METHODS:
        assert bootstrap_interval(
            lambda *_, **__: 0.25, *data, method=method, n_resamples=5
        ) == (0.25, 0.25)


def mostly_undefined(*_, sample_weight):
    return 0.0 if sample_weight.all() else np.nan


@pytest.mark.parametrize(
    ("metric", "options", "exception", "message"),
    [
        (
            expected_calibration_error, {"method": "bca"}, ValueError,
            'method must be "debiased" or "auto" for a cal.*got \'bca\'. Use method=',
        ),
        (
            partial(per_label, ks_calibration_error), {"method": "basic"}, ValueError,
            'method must be "debiased"',
        ),
        (
            lambda *_, **__: np.zeros(2), {}, TypeError,
            "metric must return a number, got ndarray. Use functools",
        ),
        (
            lambda *_, **__: np.nan, {}, ValueError,
            "metric must be finite for the sample, got NaN",
        ),
        (
            lambda *_, **__: np.inf, {}, ValueError,
            "metric must be finite for the sample, got infinity",
        ),
        (
            mostly_undefined, {}, ValueError,
            "for most of the drawn samples, got 20 of 20 undefined. Pass more samples",
        ),
        (
            ood_auroc_score, {"labels": [0, 1]}, ValueError,
            r"labels must be None .* got \[0, 1\]. Do not pass it",
        ),
        (
            partial(expected_calibration_error, norm=3.0), {}, ValueError,
            'norm must be "l1", "l2" or "max" for the interval .* got 3.0',
        ),
        (aurc_loss, {"method": "t"}, ValueError, "The 'method' parameter"),
        (aurc_loss, {"n_resamples": 0}, ValueError, "The 'n_resamples' parameter"),
        (aurc_loss, {"confidence_level": 95}, ValueError, "The 'confidence_level'"),
        (aurc_loss, {"stratify": "yes"}, ValueError, "The 'stratify' parameter"),
        (aurc_loss, {"n_jobs": 0.5}, ValueError, "The 'n_jobs' parameter"),
        (aurc_loss, {"sample_weight": [1, -1]}, ValueError, "inconsistent|shape"),
        ("ece", {}, TypeError, "metric must be a function .* got 'ece'"),
    ],
)  # fmt: skip
def test_bad_input(metric, options, exception, message):
    data = draw(np.random.default_rng(0))
    with pytest.raises(exception, match=message):
        bootstrap_interval(metric, *data, **{"n_resamples": 20, **options})


def test_bad_strata():
    with pytest.raises(ValueError, match=r"stratify must be False .* \(2, 2\)"):
        bootstrap_interval(
            partial(per_label, expected_calibration_error),
            [[0, 1], [1, 0]],
            [[0.5, 0.5], [0.5, 0.5]],
            stratify=True,
        )


@pytest.mark.parametrize(
    "metric", [aurc_loss, expected_calibration_error, ks_calibration_error]
)
def test_labels_and_weights_in_a_partial(metric):
    """They have the same effect as arguments of the function."""
    rng = np.random.default_rng(0)
    y_proba = rng.dirichlet(np.ones(3), 40)
    y_true = np.array(["ash", "birch", "cedar"])[np.arange(40) % 3]
    fixed = {
        "labels": ["birch", "cedar", "ash"],
        "sample_weight": np.linspace(1, 2, 40),
    }
    draws = {"n_resamples": 5, "random_state": 0}
    assert bootstrap_interval(
        partial(metric, **fixed), y_true, y_proba, **draws
    ) == bootstrap_interval(metric, y_true, y_proba, **fixed, **draws)


def test_more_resamples_than_anyone_needs():
    match = r"'n_resamples' .* range \[1, 10000000\]\. Got 10{12} "
    with pytest.raises(ValueError, match=match):
        bootstrap_interval(aurc_loss, [0, 1], [0.2, 0.7], n_resamples=10**12)
