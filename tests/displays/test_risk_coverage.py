"""Risk-coverage curve: values, labels and shared axes."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

from sklearn_calib.displays import RiskCoverageDisplay
from sklearn_calib.metrics import aurc_loss, risk_coverage_curve

# In the order of confidence right, right or wrong, wrong, right.
Y_TRUE = ["a", "a", "b", "b", "a"]
Y_PROBA = np.array([[0.9, 0.1], [0.8, 0.2], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])


@pytest.fixture
def display():
    return draw_first()


@pytest.fixture(scope="module")
def drawn():
    """Return a display that tests only read."""
    return draw_first()


def draw_first():
    return RiskCoverageDisplay.from_predictions(Y_TRUE, Y_PROBA, name="first")


def add_second(display, **options):
    """Draw a second classifier on the axes of the first."""
    options = {"ax": display.ax_, "name": "second", **options}
    return RiskCoverageDisplay.from_predictions(Y_TRUE, Y_PROBA[::-1], **options)


def risk_at(coverage, line):
    """Return the values of a curve at some coverages."""
    x, y = line.get_data()
    return np.interp(coverage, x, y)


def legend_texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_curve_passes_through_the_thresholds(drawn):
    coverage, risk, _ = risk_coverage_curve(Y_TRUE, Y_PROBA)
    assert_allclose(risk, [0, 1 / 3, 1 / 2, 2 / 5])
    assert_allclose(risk_at(coverage, drawn.line_), risk, atol=1e-12)
    assert_allclose(drawn.risk[-1], 0.4)


def test_ties_are_in_any_order(drawn):
    """The second and third sample are tied, and one of them is correct."""
    assert_allclose(risk_at(0.4, drawn.line_), 0.5 / 2)


def test_oracle_and_random_order(drawn):
    oracle = risk_at([0.2, 0.6, 0.8, 1], drawn.oracle_line_)
    assert_allclose(oracle, [0, 0, 1 / 4, 2 / 5], atol=1e-12)
    assert_allclose(drawn.random_line_.get_ydata(), 0.4)
    assert (drawn.oracle_risk <= drawn.risk + 1e-12).all()


def test_oracle_of_the_log_loss():
    display = RiskCoverageDisplay.from_predictions(Y_TRUE, Y_PROBA, loss="log")
    losses = -np.log([0.9, 0.8, 0.6, 0.3, 0.2])
    assert_allclose(
        risk_at(np.arange(1, 6) / 5, display.oracle_line_),
        np.cumsum(losses) / np.arange(1, 6),
    )
    assert display.ax_.get_ylabel() == "Risk (mean log loss)"


def test_area_under_the_curve_is_in_the_legend(drawn):
    assert drawn.aurc == pytest.approx(aurc_loss(Y_TRUE, Y_PROBA))
    assert drawn.line_.get_label() == f"first (AURC {drawn.aurc:.4f})"
    assert legend_texts(drawn.ax_) == [
        drawn.line_.get_label(),
        "Random order",
        "Oracle",
    ]
    assert drawn.ax_.get_xlabel() == "Coverage"
    assert drawn.ax_.get_ylabel() == "Risk (error rate)"


def test_options_are_passed_on():
    options = {
        "confidence": [1, 2, 3, 4, 5],
        "loss": lambda codes, proba: proba[:, 0] + codes,
        "sample_weight": [1, 2, 0, 1, 1],
    }
    display = RiskCoverageDisplay.from_predictions(Y_TRUE, Y_PROBA, **options)
    assert display.aurc == pytest.approx(aurc_loss(Y_TRUE, Y_PROBA, **options))
    coverage, risk, _ = risk_coverage_curve(Y_TRUE, Y_PROBA, **options)
    assert_allclose(risk_at(coverage, display.line_), risk)
    assert display.ax_.get_ylabel() == "Risk (mean loss)"


def test_several_classifiers_on_one_axes(display):
    second = add_second(display)
    assert second.ax_ is display.ax_
    assert display.figure_.axes == [display.ax_]
    assert len(display.ax_.lines) == 6, "a curve and two references for each"
    assert legend_texts(display.ax_) == [
        display.line_.get_label(),
        second.line_.get_label(),
        "Random order",
        "Oracle",
    ]
    for one in (display, second):
        color = one.line_.get_color()
        assert color == one.oracle_line_.get_color() == one.random_line_.get_color()


def test_classifiers_on_one_axes_differ_in_color_and_marker(display):
    lines = [display.line_] + [add_second(display).line_ for _ in range(6)]
    assert len({line.get_color() for line in lines}) == 7
    assert len({line.get_marker() for line in lines}) == 7


def test_color_and_name_can_be_chosen(display):
    second = add_second(display, color="black").plot(display.ax_, name="third")
    assert "third" in legend_texts(display.ax_)[2]
    assert second.line_.get_color() != "black"
    assert add_second(display, color="black").line_.get_color() == "black"


@pytest.mark.parametrize("n_more", [0, 1, 3])
def test_legend_is_above_the_lines_of_a_random_order(n_more, arrange):
    display = RiskCoverageDisplay.from_predictions([1, 1, 0], [0.9, 0.8, 0.7])
    for _ in range(n_more):
        display.plot(display.ax_)
    arrange(display.figure_)
    legend = display.ax_.get_legend().get_window_extent()
    level = display.ax_.transData.transform((0, display.risk[-1]))[1]
    assert level < legend.y0
    assert (legend.y0 >= display.ax_.get_window_extent().y1) == (n_more >= 2)
    assert legend.y1 <= display.figure_.get_window_extent().y1


def test_first_samples_do_not_set_the_scale():
    """The most confident of a thousand predictions is wrong."""
    correct = np.arange(1000) != 0
    confidence = np.linspace(0.99, 0.6, 1000)
    display = RiskCoverageDisplay.from_predictions(
        correct, np.column_stack([1 - confidence, confidence])
    )
    assert display.line_.get_ydata().max() == 1
    assert display.ax_.get_ylim()[1] < 0.1


def test_no_errors():
    display = RiskCoverageDisplay.from_predictions([0, 1], [0.1, 0.9])
    assert display.ax_.get_ylim() == (0, 1)
    assert legend_texts(display.ax_)[0] == "AURC 0.0000"


def test_limits_adapt_to_a_later_classifier():
    """Also on axes that share an axis."""
    _, axes = plt.subplots(1, 2, sharey=True)
    y_proba, index = np.linspace(0.95, 0.6, 20), np.arange(20)
    options = {"labels": [0, 1]}
    # One, ten and fifteen predictions are wrong, those with the smallest confidence.
    for n_wrong, ax in [(1, axes[0]), (10, axes[1]), (15, axes[0])]:
        y_true = (index < 20 - n_wrong).astype(int)
        RiskCoverageDisplay.from_predictions(y_true, y_proba, ax=ax, **options)
        assert n_wrong / 20 < ax.get_ylim()[1] < 2 * n_wrong / 20


def test_axes_of_the_user():
    figure, ax = plt.subplots()
    display = RiskCoverageDisplay.from_predictions(Y_TRUE, Y_PROBA, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is figure


def test_from_estimator_takes_the_columns_of_the_estimator():
    """A class without test data, and labels that are strings."""
    X, y = load_digits(n_class=4, return_X_y=True)
    y = np.array(["zero", "one", "two", "three"])[y]
    classifier = GaussianNB().fit(X[:400], y[:400])
    X, y = X[400:][y[400:] != "one"], y[400:][y[400:] != "one"]
    display = RiskCoverageDisplay.from_estimator(classifier, X, y, confidence="margin")
    proba, options = classifier.predict_proba(X), {"labels": classifier.classes_}
    expected = aurc_loss(y, proba, confidence="margin", **options)
    assert display.aurc == pytest.approx(expected)
    assert legend_texts(display.ax_)[0].startswith("GaussianNB (AURC 0.")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": "mps"}, "Did you mean 'msp'"),
        ({"loss": "brier"}, "'loss' parameter of RiskCoverageDisplay.from_predictions"),
        ({"labels": ["a"]}, "labels must contain 2 distinct labels"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        RiskCoverageDisplay.from_predictions(Y_TRUE, Y_PROBA, **options)
