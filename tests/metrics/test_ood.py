"""Metrics of out-of-distribution detection, against other implementations."""

from inspect import signature

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.metrics import (
    auc,
    average_precision_score,
    precision_recall_curve,
    roc_auc_score,
    roc_curve,
)

from sklearn_calib import metrics
from sklearn_calib.metrics import (
    fpr_at_tpr,
    ood_aupr_score,
    ood_auroc_score,
    ood_detection_error,
)

MEASURES = [
    getattr(metrics, name)
    for name in metrics.__all__
    if next(iter(signature(getattr(metrics, name)).parameters), "") == "scores_in"
]
# The sources in whose FPR in-distribution is the positive class.
IN_IS_POSITIVE = {"openood-fpr-id", "fd-shifts"}
all_measures = pytest.mark.parametrize("measure", MEASURES)


def options(name, case):
    """Return our metric for a recorded number, or None if we do not have it."""
    source = case["id"].split("-", 1)[1]
    if name.startswith(("aupr", "ap")):
        step = source in ("outlier-exposure", "fd-shifts")
        how = "step" if step else "linear"
        return ood_aupr_score, {"pos": name.split("_")[1], "interpolation": how}
    if name.startswith("fpr"):
        # The threshold nearest to 0.95 is the first one above, but with few samples.
        if case["input"] == "tied" and source == "outlier-exposure":
            return None
        return fpr_at_tpr, {"pos": "in" if source in IN_IS_POSITIVE else "out"}
    known = {"auroc": ood_auroc_score, "detection_error": ood_detection_error}
    return (known[name], {}) if name in known else None


def test_recorded_numbers(reference):
    """Numbers from a coarse grid of thresholds have a separate test."""
    recorded, n_compared = reference("metric_ood"), 0
    for case in recorded["expected"]:
        inputs = recorded["inputs"][case["input"]]
        for name, expected in case["values"].items():
            name = name.lower().replace("-", "_")
            how = None if case["id"] == "scores-odin" else options(name, case)
            if how:
                value = how[0](inputs["id"], inputs["ood"], **how[1])
                tolerance = case.get("tolerance", recorded["tolerance"])["rtol"]
                assert value == pytest.approx(expected, rel=tolerance), (case, name)
                n_compared += 1
    assert n_compared == 53


def test_grid_of_thresholds(reference):
    """The recorded code uses 100,000 thresholds, which is a close approximation."""
    recorded = reference("metric_ood")
    scores = recorded["inputs"]["scores"]
    (case,) = [c for c in recorded["expected"] if c["id"] == "scores-odin"]
    linear = {"interpolation": "linear", "balanced": True}
    ours = {
        "fpr95": fpr_at_tpr(scores["id"], scores["ood"]),
        "detection_error": ood_detection_error(scores["id"], scores["ood"]),
        "auroc": ood_auroc_score(scores["id"], scores["ood"]),
        "aupr_in": ood_aupr_score(scores["id"], scores["ood"], **linear),
        "aupr_out": ood_aupr_score(scores["id"], scores["ood"], pos="out", **linear),
    }
    distance = {name: abs(ours[name] - case["values"][name]) for name in ours}
    assert distance.pop("detection_error") < 1e-12
    assert distance.pop("fpr95") < 0.01
    assert max(distance.values()) < 0.002


@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("pos", ["in", "out"])
def test_curves_of_scikit_learn(pos, balanced):
    """Of scores with ties."""
    rng = np.random.default_rng(0)
    known, new = rng.integers(2, 12, 70), rng.integers(0, 8, 30)
    is_positive = np.repeat([pos == "in", pos == "out"], [70, 30])
    score = np.concatenate([known, new]) * (1 if pos == "in" else -1)
    share = is_positive.mean()
    weight = np.where(is_positive, 1 - share, share) if balanced else None
    curve = is_positive, score
    precision, recall, _ = precision_recall_curve(*curve, sample_weight=weight)
    fprs, tprs, _ = roc_curve(*curve, drop_intermediate=False)
    options = {"pos": pos, "balanced": balanced}
    expected = {
        "step": average_precision_score(*curve, sample_weight=weight),
        "linear": auc(recall, precision),
    }
    for interpolation, area in expected.items():
        value = ood_aupr_score(known, new, interpolation=interpolation, **options)
        assert value == pytest.approx(area, rel=1e-12)
    assert ood_auroc_score(known, new) == pytest.approx(roc_auc_score(*curve))
    assert fpr_at_tpr(known, new, tpr=0.8, pos=pos) == fprs[(tprs < 0.8).sum()]
    assert ood_detection_error(known, new) == ((1 - tprs + fprs) / 2).min()


def test_by_hand():
    """At 0.5, three of three and one of two pass; at 0.8, two of three and none."""
    scores = [0.9, 0.8, 0.5], [0.7, 0.4]
    assert fpr_at_tpr(*scores) == 0.5
    assert fpr_at_tpr(*scores, tpr=2 / 3) == 0
    assert fpr_at_tpr(*scores, pos="out") == pytest.approx(1 / 3)
    assert ood_detection_error(*scores) == pytest.approx(1 / 6)
    assert ood_auroc_score(*scores) == pytest.approx(5 / 6)


def test_true_positive_rate_is_reached_at_equality():
    """The rate of 19 of 20 is exactly 0.95."""
    scores_in = np.arange(1.0, 21.0)
    assert fpr_at_tpr(scores_in, [1.5]) == 0
    assert fpr_at_tpr(scores_in, [2.0]) == 1
    assert fpr_at_tpr(scores_in, [1.5], tpr=0.951) == 1


def test_balanced_does_not_see_how_many_samples_there_are():
    rng = np.random.default_rng(0)
    scores_in, scores_out = rng.normal(1, 1, 50), rng.normal(0, 1, 40)
    for pos in ("in", "out"):
        value = ood_aupr_score(scores_in, scores_out, pos=pos, balanced=True)
        more = ood_aupr_score(scores_in, scores_out.repeat(7), pos=pos, balanced=True)
        assert more == pytest.approx(value, rel=1e-12)
    assert ood_aupr_score([1.0] * 9, [1.0], balanced=True) == pytest.approx(0.5)
    assert ood_aupr_score([1.0] * 9, [1.0]) == pytest.approx(0.9)


@all_measures
@given(
    st.lists(st.integers(-5, 5), min_size=1, max_size=20),
    st.lists(st.integers(-5, 5), min_size=1, max_size=20),
)
def test_only_the_ranking_matters(measure, scores_in, scores_out):
    """Order, scale and dtype do not matter, and infinite scores are valid."""
    value = measure(scores_in, scores_out)
    assert type(value) is float
    assert 0 <= value <= (0.5 if measure is ood_detection_error else 1) + 1e-12

    def stretch(scores):
        scores = np.exp(np.array(scores[::-1], dtype=np.float32))
        return np.where(scores > 100, np.inf, scores)

    assert measure(stretch(scores_in), stretch(scores_out)) == pytest.approx(value)


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=20))
def test_sides_are_mirrored(scores):
    """Negated scores exchange in- and out-of-distribution."""
    there = [3, 1, 0]
    for pos, other in (("in", "out"), ("out", "in")):
        negated = -np.array(there), -np.array(scores)
        for measure in (fpr_at_tpr, ood_aupr_score):
            assert measure(scores, there, pos=pos) == pytest.approx(
                measure(*negated, pos=other)
            )


@all_measures
@pytest.mark.parametrize(
    ("scores_in", "scores_out", "message"),
    [
        ([], [1.0], "scores_in must have shape .n_samples,. with.*got shape .0,."),
        (
            [1.0],
            [[0.4, 0.6]],
            "scores_out must have shape .n_samples,.*got shape .1, 2.",
        ),
        ([1.0, np.nan], [1.0], "scores_in must not contain NaN, got 1 NaN in 2"),
    ],
)
def test_bad_scores(measure, scores_in, scores_out, message):
    with pytest.raises(ValueError, match=message):
        measure(scores_in, scores_out)


@pytest.mark.parametrize(
    ("measure", "option"),
    [
        (fpr_at_tpr, {"tpr": 0}),
        (fpr_at_tpr, {"tpr": 95}),
        (fpr_at_tpr, {"pos": "ood"}),
        (ood_aupr_score, {"interpolation": "trapezoid"}),
    ],
)
def test_bad_options(measure, option):
    with pytest.raises(ValueError, match=f"'{next(iter(option))}' parameter"):
        measure([1.0], [0.0], **option)
