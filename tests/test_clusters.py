"""Samples in clusters, such as visits of patients, in all functions that take them."""

from functools import partial
from inspect import Parameter, signature

import numpy as np
import pytest
from scipy.linalg import fractional_matrix_power
from scipy.special import expit, logit
from scipy.stats import t as student
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import log_loss

from sklearn_calib import displays, evaluation, metrics as m
from sklearn_calib.evaluation import calibration_report, compare, risk_report

N_CLUSTERS, N_EACH = 52, 3
DRAWS = {"n_resamples": 19, "random_state": 0}


def without_weights(y_true, y_proba):
    """Return a mean error, of a metric whose draws are repeated samples."""
    return np.abs(y_true - y_proba).mean()


def interval_of(metric):
    return partial(m.bootstrap_interval, metric, **DRAWS)


def difference_of(metric):
    def test(y_true, y_proba, **options):
        return m.difference_test(
            metric, y_true, y_proba, y_proba**2, **DRAWS, **options
        )

    return test


def groups_of(function, **options):
    def table(y_true, y_proba, **more):
        groups = np.full(len(y_true), "all")
        result = function(y_true, y_proba, groups=groups, **options, **more)
        return result if isinstance(result, tuple) else result.filter(regex="low|high")

    return table


def compare_all(y_true, y_proba, **options):
    names = ["neg_log_loss", "neg_ece", "neg_ks_error"]
    given = {"metrics": names, **DRAWS, **options}
    return compare({"model": y_proba}, None, y_true, **given).to_numpy()


def band_of(display_class, **options):
    """Return a function that returns the band of a display that is not drawn."""
    display_class = getattr(displays, display_class)

    def band(y_true, y_proba, **more):
        with pytest.MonkeyPatch.context() as patch:
            for name in displays.__all__:
                cls = getattr(displays, name)
                patch.setattr(cls, "plot", lambda self, *_, **__: self)
            cls = displays.GroupReliabilityDisplay
            patch.setattr(cls, "_panels", lambda _, headings: [None] * len(headings))
            patch.setattr(cls, "_finish", lambda self, _: self)
            shown = display_class.from_predictions(y_true, y_proba, **options, **more)
        if display_class is cls:
            return shown.displays[0].band, shown.error_intervals
        return shown.band

    return band


def flat(result):
    """Return the numbers of a result of any kind."""
    if isinstance(result, tuple | list):
        return np.concatenate([flat(each) for each in result])
    return np.ravel(np.asarray(result, dtype=float))


# Whatever takes `clusters`, with the names of the public functions.
MEMBERS = {
    "bootstrap_interval": interval_of(log_loss),
    "bootstrap_interval, no weights": interval_of(without_weights),
    "bootstrap_interval, bins": interval_of(m.expected_calibration_error),
    "bootstrap_interval, halves": interval_of(m.ks_calibration_error),
    "difference_test": difference_of(log_loss),
    "difference_test, error": difference_of("neg_ece"),
    "per_group": groups_of(
        partial(m.per_group, log_loss), confidence_level=0.9, **DRAWS
    ),
    "compare": compare_all,
    "calibration_report": groups_of(
        calibration_report, confidence_level=0.9, digits=None, **DRAWS
    ),
    "risk_report": partial(risk_report, thresholds=[0.3], digits=None, **DRAWS),
    "ece_interval": partial(m.ece_interval, **DRAWS),
    "ece_interval, l2": partial(m.ece_interval, norm="l2", **DRAWS),
    "ece_interval, max": partial(m.ece_interval, norm="max", n_bins=3, **DRAWS),
    "ece_interval, classwise": partial(m.ece_interval, mode="classwise", **DRAWS),
    "calibration_slope": m.calibration_slope,
    "calibration_slope, multinomial": partial(m.calibration_slope, mode="multinomial"),
    "recalibration_test": m.recalibration_test,
    "ReliabilityDisplay": band_of("ReliabilityDisplay", n_bins=3),
    "SmoothReliabilityDisplay": band_of(
        "SmoothReliabilityDisplay", interval="bootstrap", **DRAWS
    ),
    "DecisionCurveDisplay": band_of("DecisionCurveDisplay", **DRAWS),
    "GroupReliabilityDisplay": groups_of(
        band_of("GroupReliabilityDisplay", n_bins=3, **DRAWS)
    ),
}
# Those whose draws do not depend on the order of the rows.
ANY_ORDER = (
    "ece_interval",
    "calibration_slope",
    "recalibration_test",
    "ReliabilityDisplay",
)
all_members = pytest.mark.parametrize("member", MEMBERS)


@pytest.fixture(scope="module")
def problem():
    """Return labels, probabilities and clusters, whose samples share an effect."""
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(N_CLUSTERS), N_EACH)
    score = rng.normal(size=len(clusters))
    effect = rng.normal(size=N_CLUSTERS)[clusters]
    y_true = (rng.random(len(score)) < expit(score + 2 * effect)).astype(int)
    return y_true, expit(score), clusters


def test_all_functions_are_members():
    functions = {
        name: getattr(getattr(topic, name), "from_predictions", getattr(topic, name))
        for topic in (m, evaluation, displays)
        for name in topic.__all__
    }
    takers = {
        name
        for name, function in functions.items()
        if callable(function) and "clusters" in signature(function).parameters
    }
    assert takers == {name.split(",")[0] for name in MEMBERS}


@all_members
def test_clusters_matter(member, problem):
    *data, clusters = problem
    without, within = MEMBERS[member](*data), MEMBERS[member](*data, clusters=clusters)
    assert not np.allclose(flat(without), flat(within), equal_nan=True)


@all_members
def test_clusters_of_one_sample_are_no_clusters(member, problem):
    y_true, proba, _ = problem
    alone = np.random.default_rng(0).permutation(len(y_true))
    result = MEMBERS[member](y_true, proba, clusters=alone)
    np.testing.assert_array_equal(flat(result), flat(MEMBERS[member](y_true, proba)))


@all_members
def test_names_and_order_do_not_matter(member, problem):
    y_true, proba, clusters = problem
    expected = flat(MEMBERS[member](y_true, proba, clusters=clusters))
    # The first samples of all clusters, then the second ones, and so on.
    order = np.arange(len(y_true)).reshape(N_CLUSTERS, N_EACH).T.ravel()
    if member.startswith(ANY_ORDER):
        order = np.random.default_rng(0).permutation(len(y_true))
    names = np.array([f"patient {99 - number}" for number in clusters])
    data = y_true[order], proba[order]
    found = MEMBERS[member](*data, clusters=names[order].tolist())
    np.testing.assert_allclose(flat(found), expected, rtol=1e-6)


@all_members
def test_bad_clusters(member, problem):
    *data, clusters = problem
    n = len(clusters)
    for bad, message in [
        (clusters[1:], rf"clusters must have shape .* got \({n - 1},\)\. Pass the"),
        (np.stack([clusters] * 2, axis=1), r"clusters must have shape \(n_samples,\)"),
        (np.zeros(n), f"clusters must contain at least two clusters, got 1 for {n}"),
        (np.where(clusters, clusters, np.nan), "clusters must not contain missing"),
    ]:
        with pytest.raises(ValueError, match=message):
            MEMBERS[member](*data, clusters=bad)


@all_members
def test_few_clusters_warn(member, problem):
    y_true, proba, clusters = (each[: 49 * N_EACH] for each in problem)
    match = "contain at least 50 clusters, got 49"
    with pytest.warns(UserWarning, match=match) as caught:
        MEMBERS[member](y_true, proba, clusters=clusters)
    is_of_groups = member in {"per_group", "calibration_report"} or "Group" in member
    assert is_of_groups or len(caught) == 1


@pytest.mark.parametrize(
    "member",
    [
        "bootstrap_interval",
        "bootstrap_interval, no weights",
        "difference_test",
        "difference_test, error",
        "per_group",
    ],
)
def test_copies_of_samples_change_nothing(member, problem):
    """A cluster of equal samples is as good as one of them."""
    y_true, proba, _ = problem
    clusters = np.arange(len(y_true)).repeat(3)
    found = MEMBERS[member](y_true.repeat(3), proba.repeat(3), clusters=clusters)
    expected = MEMBERS[member](y_true, proba)
    np.testing.assert_allclose(flat(found), flat(expected), rtol=1e-9)


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_copies_hardly_change_intervals_of_binned_errors(norm):
    """The noise is that of the clusters, up to draws and Monte Carlo errors."""
    rng = np.random.default_rng(0)
    proba = rng.random(300)
    y_true = (rng.random(300) < proba**3).astype(int)
    options = {"norm": norm, "n_bins": 4, "random_state": 0}
    expected = m.ece_interval(y_true, proba, **options)
    copies = y_true.repeat(5), proba.repeat(5)
    found = m.ece_interval(*copies, clusters=np.arange(300).repeat(5), **options)
    narrow = m.ece_interval(*copies, **options)
    assert found == pytest.approx(expected, abs=0.01)
    assert np.ptp(narrow) < 0.7 * np.ptp(found)


def test_slope_has_the_sandwich_of_bell_and_mccaffrey(problem):
    """The errors agree with the formula, in which matrices are of samples."""
    y_true, proba, clusters = problem
    result = m.calibration_slope(y_true, proba, clusters=clusters)
    features = np.column_stack([logit(proba), np.ones_like(proba)])
    mean = expit(features @ [result.slope, result.intercept])
    scaled = features * np.sqrt(mean * (1 - mean))[:, None]
    residual = (y_true - mean) / np.sqrt(mean * (1 - mean))
    bread, meat = np.linalg.inv(scaled.T @ scaled), 0
    for number in range(N_CLUSTERS):
        part = scaled[clusters == number]
        left = np.eye(N_EACH) - part @ bread @ part.T
        adjusted = fractional_matrix_power(left, -0.5) @ residual[clusters == number]
        meat = meat + np.outer(part.T @ adjusted, part.T @ adjusted)
    errors = np.sqrt((bread @ meat @ bread).diagonal())
    size = student.ppf(0.975, N_CLUSTERS - 1)
    for name, error in zip(("slope", "intercept"), errors, strict=True):
        value = getattr(result, name)
        ends = value - size * error, value + size * error
        assert getattr(result, f"{name}_interval") == pytest.approx(ends)
    both = m.calibration_slope(y_true, proba, clusters=clusters, mode="multinomial")
    assert flat(both) == pytest.approx(flat(result), rel=1e-5)


@all_members
def test_clusters_of_weight_zero_do_not_count(member, problem):
    *data, clusters = problem
    if "no weights" in member:
        return
    options = {"clusters": clusters, "sample_weight": (clusters < 40).astype(float)}
    with pytest.warns(UserWarning, match="contain at least 50 clusters, got 40"):
        MEMBERS[member](*data, **options)
    options["sample_weight"] = (clusters == 0).astype(float)
    with pytest.raises(ValueError, match="two clusters, got 1 for 3 samples"):
        MEMBERS[member](*data, **options)


def test_samples_of_weight_zero_are_no_samples(problem):
    *data, clusters = problem
    weight = (clusters < 50).astype(float)
    for function in (m.calibration_slope, m.recalibration_test):
        found = function(*data, clusters=clusters, sample_weight=weight)
        seen = (each[clusters < 50] for each in data)
        expected = function(*seen, clusters=clusters[clusters < 50])
        assert flat(found) == pytest.approx(flat(expected))


def test_recalibration_with_fewer_clusters_than_coefficients_is_undefined(problem):
    *data, _ = problem
    with (
        pytest.warns(UserWarning, match="50 clusters"),
        pytest.warns(UndefinedMetricWarning, match="too few clusters"),
    ):
        result = m.recalibration_test(*data, clusters=np.arange(len(data[0])) % 2)
    assert np.isnan(result.pvalue)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_groups_of_one_cluster_have_no_interval(problem):
    *data, clusters = problem
    groups = np.where(clusters == 0, "one", "others")
    options = {"groups": groups, "clusters": clusters, "confidence_level": 0.9}
    of_risk = partial(risk_report, thresholds=[0.3])
    for function in (partial(m.per_group, log_loss), calibration_report, of_risk):
        ends = function(*data, **options, **DRAWS).filter(regex="low|high")
        assert ends.loc["one"].isna().all(axis=None)
        assert ends.loc["others"].notna().any(axis=None)
        with pytest.raises(ValueError, match="at least two clusters"):
            function(*data, **{**options, "clusters": np.zeros_like(clusters)})
    options = {"groups": groups, "clusters": clusters, **DRAWS}
    for kind, interval in (("bins", "clopper-pearson"), ("smooth", "bootstrap")):
        panels = band_of("GroupReliabilityDisplay", kind=kind, interval=interval)
        band, ends = panels(*data, **options)
        assert band is None
        assert kind == "smooth" or np.isnan(ends[0]).all()


@pytest.mark.parametrize(
    "name", ["ReliabilityDisplay", "SmoothReliabilityDisplay", "DecisionCurveDisplay"]
)
def test_few_clusters_do_not_warn_without_a_band(name, problem):
    *data, clusters = problem
    assert band_of(name, interval=None)(*data, clusters=clusters % 5) is None
    with pytest.raises(ValueError, match="clusters must have shape"):
        band_of(name, interval=None)(*data, clusters=clusters[:5])


def test_other_functions_refuse_clusters(problem):
    """None that passes options on passes them to a metric that does not take them."""
    *data, clusters = problem
    others = [
        getattr(m, name)
        for name in m.__all__
        if callable(getattr(m, name))
        and not isinstance(getattr(m, name), type)
        and "clusters" not in signature(getattr(m, name)).parameters
        and Parameter.VAR_KEYWORD
        in [each.kind for each in signature(getattr(m, name)).parameters.values()]
    ]
    assert m.consistency_test in others
    for function in others:
        required = {"groups": clusters} if function is m.worst_group else {}
        with pytest.raises(TypeError, match="clusters"):
            function(m.expected_calibration_error, *data, clusters=clusters, **required)


def test_metrics_of_two_samples_and_strata_refuse_clusters(problem):
    *data, clusters = problem
    with pytest.raises(ValueError, match="clusters must be None for a metric of two"):
        m.bootstrap_interval(m.ood_auroc_score, *data, clusters=clusters)
    with pytest.raises(ValueError, match="stratify must be False with clusters, got"):
        m.bootstrap_interval(log_loss, *data, clusters=clusters, stratify=True)


def test_bands_of_independent_samples_refuse_clusters(problem):
    *data, clusters = problem
    for display, interval, valid in [
        ("ReliabilityDisplay", "consistency", "clopper-pearson"),
        ("ReliabilityDisplay", "simultaneous", "clopper-pearson"),
        ("SmoothReliabilityDisplay", "consistency", "bootstrap"),
        ("SmoothReliabilityDisplay", "simultaneous", "bootstrap"),
    ]:
        with pytest.raises(ValueError, match=f'be "{valid}" or None with clusters'):
            band_of(display, interval=interval)(*data, clusters=clusters)
        assert band_of(display, interval=None)(*data, clusters=clusters) is None
    for display in ("CorpReliabilityDisplay", "CalibrationBeltDisplay"):
        cls = getattr(displays, display)
        with pytest.raises(TypeError, match="clusters"):
            cls.from_predictions(*data, clusters=clusters)


def test_copies_hardly_change_the_intervals_of_bins():
    """The effective number of samples is that of the clusters, less one."""
    rng = np.random.default_rng(0)
    proba = rng.random(200)
    y_true = (rng.random(200) < proba).astype(int)
    band = band_of("ReliabilityDisplay", n_bins=2)
    clusters = np.arange(200).repeat(4)
    copies = y_true.repeat(4), proba.repeat(4)
    found, expected = band(*copies, clusters=clusters), band(y_true, proba)
    assert found == pytest.approx(expected, abs=2e-3)
    assert (np.ptp(band(*copies), axis=0) < 0.6 * np.ptp(found, axis=0)).all()
    # All samples are correct: as many as there are clusters.
    one = np.ones(120, dtype=int)
    alone = band(one, one / 2, labels=[0, 1])
    copied = band(one, one / 2, clusters=np.arange(120) // 2, labels=[0, 1])
    assert copied[0, 0] == pytest.approx(0.025 ** (1 / 60))
    assert alone[0, 0] == pytest.approx(0.025 ** (1 / 120))
