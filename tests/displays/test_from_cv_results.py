"""Curves of the folds of a cross-validation, and their average."""

import functools

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy.integrate import trapezoid
from scipy.sparse import coo_array
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ShuffleSplit, cross_validate
from sklearn.naive_bayes import GaussianNB

from sklearn_calib.displays import (
    DecisionCurveDisplay,
    ReliabilityDisplay,
    RiskCoverageDisplay,
    SmoothReliabilityDisplay,
)
from sklearn_calib.estimators import SelectiveClassifier

# The curve that is averaged, and the weights of the folds.
CURVES = {
    ReliabilityDisplay: ("prob_true", "counts"),
    SmoothReliabilityDisplay: ("prob_true", "density"),
    RiskCoverageDisplay: ("risk", None),
    DecisionCurveDisplay: ("net_benefit", None),
}
every_display = pytest.mark.parametrize("cls", CURVES)
LABELS = np.array(["rose", "iris", "aster"])


@functools.cache
def validated(n_classes=2, cv=3):
    """Return the results of a cross-validation, and its data."""
    X, codes = make_classification(
        300, n_informative=4, n_classes=n_classes, flip_y=0.3, random_state=0
    )
    y = LABELS[codes]
    results = cross_validate(
        GaussianNB(), X, y, cv=cv, return_estimator=True, return_indices=True
    )
    return results, X, y


@pytest.fixture(scope="module")
def one_by_one(without_drawing):
    """Return a function for the displays of the folds, which are not drawn."""

    def make(cls, results, X, y, weight=None):
        options = {} if cls is RiskCoverageDisplay else {"interval": None}
        weight = np.ones(len(y)) if weight is None else weight
        folds = zip(results["estimator"], results["indices"]["test"], strict=True)
        with without_drawing():
            return [
                cls.from_estimator(
                    estimator, X[rows], y[rows], sample_weight=weight[rows], **options
                )
                for estimator, rows in folds
            ]

    return make


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@every_display
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_curve_for_each_test_fold(cls, n_classes, one_by_one):
    results, X, y = validated(n_classes, cv=2)
    weight = 1 + np.arange(len(y)) % 3
    displays = cls.from_cv_results(results, X, y, sample_weight=weight)
    assert len(plt.get_fignums()) == 1
    assert len({display.ax_ for display in displays}) == 1
    curve, _ = CURVES[cls]
    expected = one_by_one(cls, results, X, y, weight)
    for display, alone in zip(displays, expected, strict=True):
        np.testing.assert_array_equal(getattr(display, curve), getattr(alone, curve))
    named = [text for text in texts(displays[0].ax_) if "GaussianNB" in text]
    if cls is DecisionCurveDisplay:
        assert named == ["GaussianNB"]
    else:
        ((word, at),) = cls._scores
        values = [getattr(display, at) for display in displays]
        n = cls._decimals
        scores = f"{np.mean(values):.{n}f} ± {np.std(values):.{n}f}"
        assert named == [f"GaussianNB ({word} {scores})"]
    assert len({display.line_.get_color() for display in displays}) == 1


@every_display
def test_average(cls, draw_all, one_by_one):
    """In bins and on smooth curves, it is weighted by the samples at each place."""
    results, X, y = validated(cv=2)
    (average,) = cls.from_cv_results(results, X, y, kind="average", name="mean")
    folds = one_by_one(cls, results, X, y)
    curve, weight = CURVES[cls]
    values = np.array([getattr(fold, curve) for fold in folds])
    weights = np.ones(values.shape)
    if weight is not None:
        weights = np.array([getattr(fold, weight) for fold in folds])
    mean = np.ma.average(np.ma.masked_invalid(values), axis=0, weights=weights)
    deviation = np.ma.masked_invalid(values) - mean
    spread = np.sqrt(np.ma.average(deviation**2, axis=0, weights=weights))
    np.testing.assert_allclose(getattr(average, curve), mean.filled(np.nan), atol=1e-12)
    band = np.array([(mean - spread).filled(np.nan), (mean + spread).filled(np.nan)])
    if cls is ReliabilityDisplay:
        band = band.clip(0, 1)
    np.testing.assert_allclose(average.band, band, atol=1e-12)
    assert "± 1 standard deviation" in texts(average.ax_)
    assert texts(average.ax_)[0].startswith("mean")
    draw_all(average.figure_)


def test_average_in_bins_is_that_of_all_test_samples_together():
    results, X, y = validated()
    (average,) = ReliabilityDisplay.from_cv_results(results, X, y, kind="average")
    order = np.concatenate(results["indices"]["test"])
    proba = np.concatenate(
        [
            estimator.predict_proba(X[rows])
            for estimator, rows in zip(
                results["estimator"], results["indices"]["test"], strict=True
            )
        ]
    )
    pooled = ReliabilityDisplay.from_predictions(y[order], proba)
    for name in ("counts", "prob_true", "prob_pred", "histogram"):
        np.testing.assert_allclose(getattr(average, name), getattr(pooled, name))
    assert average.frame().shape == pooled.frame().shape


class GivenProbabilities(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose X contains the probabilities of the second class."""

    classes_ = np.array([0, 1])

    def predict_proba(self, X):
        return np.hstack([1 - X, X])


def test_smooth_average_of_folds_of_different_sizes():
    """It is near the curve of all samples, although a small fold is very different."""
    rng = np.random.default_rng(0)
    X = rng.random((1000, 1))
    y = (rng.random(1000) < X[:, 0]).astype(int)
    y[:50] = 0
    estimators, folds = [GivenProbabilities()] * 2, np.split(np.arange(1000), [50])
    results = {"estimator": estimators, "indices": {"test": folds}}
    draw = SmoothReliabilityDisplay.from_cv_results
    (average,) = draw(results, X, y, kind="average", pos_label=1)
    pooled = SmoothReliabilityDisplay.from_predictions(y, X[:, 0], interval=None)
    for name in ("prob_true", "density"):
        value, expected = getattr(average, name), getattr(pooled, name)
        np.testing.assert_allclose(value, expected, atol=0.06)
    assert trapezoid(average.density, average.prob_pred) == pytest.approx(1)
    np.testing.assert_allclose(average.means, pooled.means)


def test_options_and_the_positive_class():
    results, X, y = validated()
    display, *_ = ReliabilityDisplay.from_cv_results(
        results, X, y, n_bins=4, pos_label="iris", histogram=False
    )
    assert len(display.counts) == 4
    assert display.pos_label == "iris"
    assert display.histogram_ax_ is None
    assert display.band is None


@pytest.mark.parametrize("kind", ["individual", "average"])
def test_displays_keep_their_names(kind):
    displays = RiskCoverageDisplay.from_cv_results(
        *validated(), kind=kind, name="bayes"
    )
    assert {display.name for display in displays} == {"bayes"}
    assert displays[0].plot().line_.get_label().startswith("bayes (AURC")


def test_legend_of_an_average_and_of_one_classifier_with_an_interval():
    results, X, y = validated()
    one = DecisionCurveDisplay.from_estimator(results["estimator"][0], X, y)
    DecisionCurveDisplay.from_cv_results(results, X, y, kind="average", ax=one.ax_)
    assert texts(one.ax_)[2:4] == ["95 % interval", "± 1 standard deviation"]


def test_names_and_styles_of_each_fold():
    results, X, y = validated()
    figure, ax = plt.subplots()
    styles = [{"c": "C3"}, {"ls": ":"}, {"lw": 3}]
    displays = RiskCoverageDisplay.from_cv_results(
        results, X, y, ax=ax, name=["one", "two", "three"], curve_kwargs=styles
    )
    assert displays[0].figure_ is figure
    assert [text.split(" (")[0] for text in texts(ax)[:3]] == ["one", "two", "three"]
    lines = [display.line_ for display in displays]
    assert lines[0].get_color() == displays[0].oracle_line_.get_color() == "C3"
    assert lines[1].get_linestyle() == ":"
    assert lines[2].get_linewidth() == 3
    style = {"color": "k", "alpha": 0.2}
    others = RiskCoverageDisplay.from_cv_results(
        results, X, y, ax=ax, name="all", curve_kwargs=style
    )
    assert [each.line_.get_color() for each in others] == ["k"] * 3
    for kind in ("individual", "average"):
        colored = RiskCoverageDisplay.from_cv_results(
            results, X, y, kind=kind, color="C3"
        )
        assert {each.line_.get_color() for each in colored} == {"C3"}
    assert [each.line_.get_alpha() for each in others] == [0.2] * 3
    assert [text.split(" (")[0] for text in texts(ax)[:4]] == [
        "one", "two", "three", "all",
    ]  # fmt: skip


def test_containers():
    results, X, y = validated()
    expected = RiskCoverageDisplay.from_cv_results(results, X, y)
    index = np.arange(len(y))[::-1]
    frame = pd.DataFrame(X, index=index)
    for other in ((X.tolist(), y.tolist()), (frame.to_numpy(), pd.Series(y, index))):
        weight = [1] * len(y)
        displays = RiskCoverageDisplay.from_cv_results(
            results, *other, sample_weight=weight
        )
        assert [d.aurc for d in displays] == [d.aurc for d in expected]


def test_sparse_matrices():
    _, X, y = validated()
    results = cross_validate(
        LogisticRegression(),
        coo_array(X),
        y,
        cv=2,
        return_estimator=True,
        return_indices=True,
    )
    expected = RiskCoverageDisplay.from_cv_results(results, X, y)
    displays = RiskCoverageDisplay.from_cv_results(results, coo_array(X), y)
    assert [d.aurc for d in displays] == pytest.approx([d.aurc for d in expected])


def test_a_class_may_be_absent_from_a_test_fold():
    results, X, y = validated(3)
    seen = [rows[y[rows] != "iris"] for rows in results["indices"]["test"]]
    some = {**results, "indices": {"test": seen}}
    assert len(RiskCoverageDisplay.from_cv_results(some, X, y)) == 3


def test_splits_that_leave_samples_out():
    split = ShuffleSplit(2, test_size=0.2, train_size=0.5, random_state=0)
    results, X, y = validated(2, split)
    assert len(DecisionCurveDisplay.from_cv_results(results, X, y)) == 2


def test_operating_points_of_selective_classifiers():
    _, X, y = validated()
    model = SelectiveClassifier(
        FrozenEstimator(LogisticRegression().fit(X, y)), coverage=0.5
    )
    results = cross_validate(
        model, X, y, cv=2, return_estimator=True, return_indices=True
    )
    displays = RiskCoverageDisplay.from_cv_results(results, X, y)
    assert all(0.3 < display.operating_point[0] < 0.7 for display in displays)
    (average,) = RiskCoverageDisplay.from_cv_results(results, X, y, kind="average")
    assert average.operating_point is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cv_results": {"fit_time": [1]}}, r"must contain .* got only \['fit_time'\]"),
        ({"cv_results": [1]}, "'cv_results' parameter"),
        ({"kind": "mean"}, "'kind' parameter .* Got 'mean'"),
        ({"y": LABELS}, "inconsistent numbers of samples"),
        ({"sample_weight": [1.0]}, "inconsistent numbers of samples"),
        ({"curve_kwargs": [{}] * 3, "kind": "average"}, r"of length 1, got \[{}, "),
        ({"name": ["a", "b", "c"]}, r"name must be a string, .* got \['a', 'b', 'c'\]"),
        (
            {"strategy": "quantile", "kind": "average"},
            "the same bin_edges for kind='av",
        ),
        ({"n_bins": 0}, "'n_bins' parameter"),
        ({"pos_label": "tulip"}, "pos_label must be one of"),
    ],
)
def test_bad_input(change, message):
    results, X, y = validated()
    arguments = {"cv_results": results, "X": X, "y": y, **change}
    with pytest.raises(ValueError, match=message):
        ReliabilityDisplay.from_cv_results(**arguments)
    assert not plt.get_fignums()


ROWS = r"array of row numbers, not empty, for each of [03] classifiers, .*, got \["


@every_display
@pytest.mark.parametrize(
    ("changes", "styles", "message"),
    [
        ({"indices": {"train": []}}, None, r"with 'test', got .* indices {'train': \["),
        ({"indices": []}, None, r"with 'test', got .* indices \[\]"),
        ({"indices": {"test": [range(9), range(9), np.arange(0)]}}, None, ROWS),
        ({"indices": {"test": []}, "estimator": []}, None, ROWS),
        ({"indices": {"test": [range(9)]}}, None, ROWS),
        ({"indices": {"test": [1, 2, 3]}}, None, ROWS),
        ({"indices": {"test": [["a"], ["b"], ["c"]]}}, None, ROWS),
        ({}, [3, 4, 5], r"of dictionaries, of length 3, got \[3, 4, 5\] of length 3"),
        ({}, [{}], r"of dictionaries, of length 3, got \[{}\] of length 1"),
    ],
)
def test_folds_that_cannot_be_read(cls, changes, styles, message):
    results, X, y = validated()
    with pytest.raises(ValueError, match=message):
        cls.from_cv_results({**results, **changes}, X, y, curve_kwargs=styles)
    assert not plt.get_fignums()


def test_data_of_another_cross_validation():
    results, X, y = validated()
    with pytest.raises(ValueError, match=r"at least 300, got 200 labels\. Pass"):
        ReliabilityDisplay.from_cv_results(results, X[:200], y[:200])


@every_display
def test_unknown_options_draw_nothing(cls):
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        cls.from_cv_results(*validated(cv=2), colour="red")
    assert not plt.get_fignums()


class Titled(DecisionCurveDisplay):
    def plot(self, ax, **options):
        super().plot(ax, **options)
        self.ax_.set_title("Folds")
        return self


def test_plot_of_a_subclass_draws_each_fold():
    displays = Titled.from_cv_results(*validated(cv=2))
    assert [display.ax_.get_title() for display in displays] == ["Folds"] * 2
