"""The operating point of a selective classifier on its risk-coverage curve."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sklearn_calib import SelectiveClassifier
from sklearn_calib.displays import RiskCoverageDisplay

# In the order of confidence right, right or wrong, wrong, right.
Y_TRUE = ["a", "a", "b", "b", "a"]
Y_PROBA = np.array([[0.9, 0.1], [0.8, 0.2], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=400)
    return np.eye(3)[y] + rng.normal(size=(400, 3)), np.array(["a", "b", "c"])[y]


@pytest.mark.parametrize(
    ("threshold", "point"),
    [
        (0.9, (0.2, 0)),
        (0.8, (0.6, 1 / 3)),
        (0.75, (0.6, 1 / 3)),
        (-np.inf, (1, 2 / 5)),
        (0.95, None),
        (None, None),
    ],
)
def test_point_is_that_of_the_accepted_samples(threshold, point):
    display = RiskCoverageDisplay.from_predictions(Y_TRUE, Y_PROBA, threshold=threshold)
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert ("Operating point" in texts) == (point is not None)
    if point is None:
        assert display.operating_point is display.point_ is None
        return
    assert display.operating_point == pytest.approx(point)
    assert np.ravel(display.point_.get_data()) == pytest.approx(point)
    on_curve = np.interp(point[0], display.coverage, display.risk)
    assert on_curve == pytest.approx(point[1])


def probability_of_the_first(proba):
    return proba[:, 0]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    "confidence", ["msp", "max_logit", "negative_entropy", probability_of_the_first]
)
def test_point_of_a_selective_classifier(data, confidence):
    X, y = data
    classifier = LogisticRegression()
    model = SelectiveClassifier(classifier, coverage=0.6, confidence=confidence)
    model.fit(X[:200], y[:200])
    X, y = X[200:], y[200:]
    weight = np.arange(200) % 3
    for weights in ({}, {"sample_weight": weight}):
        display = RiskCoverageDisplay.from_estimator(model, X, y, **weights)
        coverage, risk = display.operating_point
        assert coverage == pytest.approx(model.coverage_score(X, **weights))
        assert risk == pytest.approx(1 - model.score(X, y, **weights))


def test_another_confidence_has_no_operating_point(data):
    model = SelectiveClassifier(LogisticRegression(), coverage=0.6).fit(*data)
    draw = RiskCoverageDisplay.from_estimator
    assert draw(model, *data, confidence="margin").operating_point is None
    assert draw(model, *data, confidence="margin", threshold=0.1).point_ is not None
    assert draw(model.estimator_, *data).operating_point is None


def test_points_of_several_classifiers_have_one_legend_entry(data):
    model = SelectiveClassifier(LogisticRegression(), coverage=0.6).fit(*data)
    first = RiskCoverageDisplay.from_estimator(model.estimator_, *data)
    others = [
        RiskCoverageDisplay.from_estimator(model, *data, ax=first.ax_) for _ in range(2)
    ]
    assert first.point_ is None
    for display in others:
        assert display.point_.get_color() == display.line_.get_color()
    texts = [text.get_text() for text in first.ax_.get_legend().get_texts()]
    assert texts.count("Operating point") == 1


@pytest.mark.parametrize("threshold", [np.nan, "low"])
def test_wrong_threshold(threshold):
    with pytest.raises(ValueError, match="'threshold' parameter of RiskCoverage"):
        RiskCoverageDisplay.from_predictions(Y_TRUE, Y_PROBA, threshold=threshold)
