"""Decision curve: values, bands, labels and shared axes."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_calib.displays import DecisionCurveDisplay
from sklearn_calib.metrics import net_benefit_curve


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    y_proba = rng.beta(1, 3, size=400)
    return np.where(rng.random(400) < y_proba, "ill", "healthy"), y_proba


def draw(problem, **options):
    options = {"n_resamples": 20, "random_state": 0, **options}
    options["labels"] = ["healthy", "ill"]
    return DecisionCurveDisplay.from_predictions(*problem, **options)


def legend_texts(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_lines_are_those_of_the_metric(problem):
    display = draw(problem)
    curve = net_benefit_curve(*problem, labels=["healthy", "ill"])
    assert_array_equal(display.line_.get_xydata().T, curve[:2])
    assert_array_equal(display.treat_all_line_.get_ydata(), curve.treat_all)
    table = display.frame()
    columns = ["thresholds", "net_benefit", "treat_all", "low", "high"]
    assert table.columns.tolist() == columns
    assert_array_equal(table["net_benefit"], curve.net_benefit)


@pytest.mark.usefixtures("undrawn")
def test_band_is_that_of_a_mean(problem):
    """The net benefit is a mean over samples, so its distribution is near normal."""
    display = draw(problem, thresholds=[0.1, 0.3], n_resamples=4000)
    outcome = problem[0] == "ill"
    for number, at in enumerate([0.1, 0.3]):
        each = (problem[1] >= at) * np.where(outcome, 1, -at / (1 - at))
        half = 1.96 * each.std() / 20
        expected = each.mean() + np.array([-half, half])
        assert_allclose(display.band[:, number], expected, atol=0.1 * half)


def test_positive_label(problem):
    """The curve of the other class has the other probabilities."""
    y_true, proba = problem
    columns = np.column_stack([1 - proba, proba])
    other = draw((y_true, columns), pos_label="healthy", interval=None)
    expected = net_benefit_curve(y_true == "healthy", 1 - proba).net_benefit
    assert_array_equal(other.net_benefit, expected)
    assert other.band is other.band_ is None


def test_legend_and_limits(problem):
    display = draw(problem, name="first", confidence_level=0.9)
    expected = ["first", "90 % interval", "Treat all", "Treat none"]
    assert legend_texts(display) == expected
    bottom, top = display.ax_.get_ylim()
    assert bottom < 0 < display.net_benefit.max() < top
    assert display.treat_all.min() < bottom


def test_the_same_outcomes_have_one_line_of_treating_all(problem):
    y_true, proba = problem
    first = draw(problem, name="first")
    second = draw((y_true, proba**2), name="second", ax=first.ax_)
    assert second.treat_all_line_ is first.treat_all_line_
    third = draw((y_true[:100], proba[:100]), name="third", ax=first.ax_)
    assert third.treat_all_line_ is not first.treat_all_line_
    assert third.treat_all_line_.get_color() == third.line_.get_color()
    expected = ["first", "second", "third", "95 % interval", "Treat all", "Treat none"]
    assert legend_texts(third) == expected


def test_a_single_threshold(problem):
    display = draw(problem, thresholds=[0.2])
    assert display.ax_.get_xlim() == (0, 1)
    assert display.net_benefit.shape == (1,)


def test_bad_thresholds_leave_no_figure(problem):
    with pytest.raises(ValueError, match=r"thresholds must lie in \(0, 1\), got 2\."):
        draw(problem, thresholds=[2])
    assert not plt.get_fignums()
