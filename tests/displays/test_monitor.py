"""MonitorDisplay: what is drawn, and for which input."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from sklearn_calib.deployment import CalibrationMonitor
from sklearn_calib.displays import MonitorDisplay


def monitored(change, n_batches=30, n_samples=100, **options):
    rng = np.random.default_rng(0)
    monitor = CalibrationMonitor(labels=[0, 1], mode="positive", **options)
    for batch in range(n_batches):
        p = rng.uniform(size=n_samples)
        y = rng.uniform(size=n_samples) < (p if batch < change else p**3)
        monitor.update(y.astype(int), p)
    return monitor


def test_what_is_drawn():
    monitor = monitored(change=20)
    display = MonitorDisplay.from_monitor(monitor)
    history = monitor.history()
    assert_array_equal(display.line_.get_xdata(), history["batch"])
    assert_allclose(
        display.line_.get_ydata(), history["log_e_value"] / math.log(10), rtol=1e-12
    )
    assert display.change_line_.get_xdata()[0] == monitor.diagnose().change_point == 20
    assert display.alarm_line_.get_xdata()[0] == monitor.alarm_at_
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == [
        "Classifier",
        "Change at batch 20",
        f"Alarm at batch {monitor.alarm_at_}",
        r"Threshold $1/\alpha$ = 20",
        "95 % range if calibrated",
    ]
    gap = history["confidence"] - history["accuracy"]
    assert_allclose(display.gap_line_.get_ydata(), gap)
    assert_array_equal(display.gap_line_.get_xdata(), history["batch"])
    (corners,) = [path.vertices for path in display.band_.get_paths()]
    assert corners[:, 1].max() == pytest.approx(1.96 * history["deviation"].max())
    table = display.frame()
    assert [*table.columns] == [*history]
    assert_array_equal(table["log_e_value"], history["log_e_value"])


def test_calibrated():
    display = MonitorDisplay.from_monitor(monitored(change=30), name="new")
    assert display.change_line_ is None
    assert display.alarm_line_ is None
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts[0] == "new"
    assert not any("Alarm" in text or "Change" in text for text in texts)


def test_points_with_few_samples_are_averaged():
    """Of samples one by one, the gap is that of groups; the e-value is not."""
    monitor = monitored(change=100, n_batches=100, n_samples=1)
    display = MonitorDisplay.from_monitor(monitor)
    n_blocks = len(monitor.history()["batch"])
    assert len(display.line_.get_xdata()) == n_blocks
    assert len(display.gap_line_.get_xdata()) < n_blocks
    assert display.gap_line_.get_xdata()[-1] == 99
    # The mean over the groups, weighted by their samples, is that of all samples.
    history = monitor.history()
    gap = history["n_samples"] @ (history["confidence"] - history["accuracy"]) / 100
    groups = np.diff(display.gap_line_.get_xdata(), prepend=-1)
    assert groups @ display.gap_line_.get_ydata() / 100 == pytest.approx(gap)


def test_batches_without_samples(draw_all):
    monitor = CalibrationMonitor(labels=[0, 1], mode="positive")
    monitor.update([], []).update([0, 1], [0.2, 0.7]).update([], [])
    display = MonitorDisplay.from_monitor(monitor)
    assert_allclose(display.gap_line_.get_ydata(), [-0.05])
    empty = CalibrationMonitor(labels=[0, 1]).update([], [])
    draw_all(MonitorDisplay.from_monitor(empty).figure_)


def test_ticks_are_batches():
    """Ticks are integers, also those of few batches; a single one is visible."""
    for n_batches in (1, 2, 8, 19):
        display = MonitorDisplay.from_monitor(monitored(0, n_batches, 5))
        ticks = display.gap_ax_.get_xticks()
        assert_array_equal(ticks, np.round(ticks))
        assert (display.line_.get_markevery() is None) == (n_batches == 1)


@pytest.mark.parametrize(
    ("mode", "label"),
    [
        ("top_label", "Confidence\n- accuracy"),
        ("positive", "Probability\n- frequency"),
        ("classwise", "Confidence\n- accuracy"),
    ],
)
def test_the_gap_is_named(mode, label):
    monitor = CalibrationMonitor(labels=[0, 1], mode=mode)
    monitor.update([0, 1, 1], [0.2, 0.4, 0.9])
    display = MonitorDisplay.from_monitor(monitor)
    assert display.gap_ax_.get_ylabel() == label
    expected = 0.5 - 2 / 3 if mode == "positive" else 2.3 / 3 - 2 / 3
    assert display.gap_line_.get_ydata() == pytest.approx(expected)


def test_thresholds_of_two_monitors():
    first = MonitorDisplay.from_monitor(monitored(change=20), name="one")
    second = MonitorDisplay.from_monitor(
        monitored(change=10, alpha=0.01), ax=first.ax_, name="two"
    )
    assert second.gap_ax_ is first.gap_ax_
    texts = [text.get_text() for text in first.ax_.get_legend().get_texts()]
    assert {r"Threshold $1/\alpha$ = 20", r"Threshold $1/\alpha$ = 100"} < {*texts}
    assert texts.count("95 % range if calibrated") == 1


def test_not_a_monitor():
    with pytest.raises(TypeError, match="must be a CalibrationMonitor, got list"):
        MonitorDisplay.from_monitor([])
    with pytest.raises(NotFittedError, match="Call 'update'"):
        MonitorDisplay.from_monitor(CalibrationMonitor(labels=[0, 1]))
    assert not plt.get_fignums()


def test_axes_that_were_cleared():
    figure, ax = plt.subplots()
    for _ in range(2):
        ax.clear()
        display = MonitorDisplay.from_monitor(monitored(change=20), ax=ax)
    assert figure.axes == [ax, display.gap_ax_]
    assert display.gap_ax_.lines[0] is display.gap_line_
