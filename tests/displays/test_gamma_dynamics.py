"""Gamma dynamics: lines, empty bins, switches and several runs."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from skorch.history import History

from sklearn_calib import NeuralClassifier
from sklearn_calib.callbacks import RecordBins
from sklearn_calib.displays import GammaDynamicsDisplay
from sklearn_calib.losses import get_loss_names

# Three bins, of which the second epoch fills two; the last one switches and returns.
GAMMA = [[1.0, 1.0, 0.3], [1.1, 0.9], [1.2, 0.8, -0.2], [1.3, 0.7, 0.2]]
GAP = [[0.1, 0.0, -0.3], [0.1, -0.1], [0.1, -0.1, 0.2], [0.1, -0.1, 0.0]]


@pytest.fixture
def history():
    return make_history()


@pytest.fixture(scope="module")
def display():
    """Return a display that tests only read."""
    return GammaDynamicsDisplay.from_history(make_history(), name="AdaFocal")


def make_history():
    history = History()
    for gamma, gap in zip(GAMMA, GAP, strict=True):
        history.new_epoch()
        history.record("epoch", len(history))
        history.record("gamma", gamma)
        history.record("calibration_gap", gap)
    return history


def legend_texts(display):
    legend = display.axes_[0, -1].get_legend()
    return [text.get_text() for text in legend.get_texts()] if legend else []


def reach(band):
    """Return the ends of a rectangle, which is a polygon in old matplotlib."""
    return band.get_extents().transformed(band.axes.transData.inverted()).intervaly


def bands(display):
    """Return for each panel whether negative gammas are on grey."""
    return [len(ax.patches) > 0 for ax in display.axes_[1]]


def test_lines(display):
    assert display.bins_ == [0, 1, 2]
    for index in range(3):
        columns = [
            [row[index] if index < len(row) else np.nan for row in table]
            for table in (GAP, GAMMA)
        ]
        lines = display.gap_lines_[index], display.gamma_lines_[index]
        for line, ax, values in zip(
            lines, display.axes_[:, index], columns, strict=True
        ):
            assert line in ax.lines
            assert_array_equal(line.get_xdata(), [1, 2, 3, 4])
            assert_array_equal(line.get_ydata(), values)


def test_epochs_without_an_update_are_left_out(history):
    history[0]["calibration_gap"] = None
    del history[1]["gamma"]
    history[2]["gamma"] = None
    display = GammaDynamicsDisplay.from_history(history, bins=2)
    assert_array_equal(display.gamma_lines_[0].get_xdata(), [4])


def test_words(display):
    titles = [ax.get_title() for ax in display.axes_[0]]
    assert titles == ["Bin 0, lowest", "Bin 1", "Bin 2, highest"]
    labels = [ax.get_ylabel() for ax in display.axes_[:, 0]]
    assert labels == ["Confidence\n- accuracy", "Gamma"]
    assert [ax.get_xlabel() for ax in display.axes_[1]] == ["Epoch"] * 3
    assert legend_texts(display) == ["AdaFocal", "Inverse focal loss", "Switch"]


def test_zero_gap_is_dashed(display):
    for ax in display.axes_[0]:
        dashed = [line for line in ax.lines if line.get_linestyle() == "--"]
        assert [list(line.get_ydata()) for line in dashed] == [[0, 0]]


def test_negative_gamma_is_on_grey_and_switches_are_marked(display):
    assert bands(display) == [False, False, True]
    (band,) = display.axes_[1, 2].patches
    assert reach(band) == pytest.approx((display.axes_[1, 2].get_ylim()[0], 0))
    assert [list(line.get_xdata()) for line in display.switch_lines_] == [
        [],
        [],
        [3, 4],
    ]
    assert list(display.switch_lines_[2].get_ydata()) == [-0.2, 0.2]


def test_without_negative_gamma_there_is_nothing_to_explain(history):
    display = GammaDynamicsDisplay.from_history(history[:2])
    assert bands(display) == [False] * 3
    assert legend_texts(display) == []


@pytest.mark.parametrize(
    ("bins", "shown"),
    [(None, [0, 7, 14]), ([3, 1], [3, 1]), (4, [4]), ("all", range(15))],
)
def test_bins(bins, shown):
    history = [{"epoch": 1, "gamma": [1.0] * 15, "calibration_gap": [0.0] * 15}]
    display = GammaDynamicsDisplay.from_history(history, bins=bins)
    assert display.bins_ == list(shown)
    assert display.axes_.shape == (2, len(shown))
    titles = [ax.get_title().partition(",")[0] for ax in display.axes_[0]]
    assert titles == [f"Bin {index}" for index in shown]


def test_panels_of_one_bin_are_below_each_other(arrange):
    history = [{"epoch": 1, "gamma": [1.0] * 6, "calibration_gap": [0.0] * 6}]
    display = GammaDynamicsDisplay.from_history(history, bins="all")
    arrange(display.figure_)
    boxes = np.vectorize(lambda ax: ax.get_position().bounds, otypes=[object])
    left, bottom = np.array(boxes(display.axes_).tolist())[..., :2].transpose(2, 0, 1)
    np.testing.assert_allclose(left[0], left[1])
    assert (bottom[0] > bottom[1]).all()
    assert (bottom[1, :5] > bottom[0, 5:]).all()
    # Only the lowest row has a label below.
    labelled = [index for index, ax in enumerate(display.axes_[1]) if ax.get_xlabel()]
    assert labelled == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("shown", [1, 2, 3])
def test_a_run_without_gamma(history, shown):
    """It has one row of panels, unless it is drawn on others."""
    fixed = [{k: row[k] for k in ("epoch", "calibration_gap")} for row in history]
    options = {"bins": range(shown)}
    one_row = GammaDynamicsDisplay.from_history(fixed, name="focal", **options)
    assert one_row.axes_.shape == (1, shown)
    assert one_row.gamma is None
    both = GammaDynamicsDisplay.from_history(history, name="AdaFocal", **options)
    below = GammaDynamicsDisplay.from_history(
        fixed, name="focal", ax=both.axes_, **options
    )
    for display in (one_row, below):
        assert display.gamma_lines_ == display.switch_lines_ == []
        for line, ax in zip(display.gap_lines_, display.axes_[0], strict=True):
            assert line in ax.lines
        values = [row[0] for row in GAP]
        assert_array_equal(display.gap_lines_[0].get_ydata(), values)
    assert legend_texts(one_row) == ["focal"]
    assert [ax.get_xlabel() for ax in one_row.axes_[0]] == ["Epoch"] * shown
    assert legend_texts(below)[:2] == ["AdaFocal", "focal"]
    assert [ax.get_xlabel() for ax in below.axes_[0]] == [""] * shown
    colors = [display.gap_lines_[0].get_color() for display in (both, below)]
    assert colors[0] != colors[1]


def test_gamma_is_not_drawn_on_one_row(history):
    _, axes = plt.subplots(1, 3, squeeze=False)
    display = GammaDynamicsDisplay.from_history(history, name="AdaFocal", ax=axes)
    assert len(display.gap_lines_) == 3
    assert display.gamma_lines_ == []
    assert [len(ax.lines) for ax in axes[0]] == [2, 2, 2]  # the gap and zero
    assert legend_texts(display) == ["AdaFocal"]
    assert display.gamma.shape == (4, 3)


def test_two_runs(history):
    first = GammaDynamicsDisplay.from_history(history[:2], name="one", bins=2)
    axes, options = first.axes_, {"bins": 2, "ax": first.axes_}
    second = GammaDynamicsDisplay.from_history(history, name="two", **options)
    assert (second.axes_ == axes).all()
    assert legend_texts(second) == ["one", "two", "Inverse focal loss", "Switch"]
    colors = {display.gamma_lines_[0].get_color() for display in (first, second)}
    assert len(colors) == 2
    third = GammaDynamicsDisplay.from_history(history, color="red", **options)
    assert third.gap_lines_[0].get_color() == "red"


def test_a_later_run_fits_into_the_panels(history):
    """The part of the axes with negative gammas is grey."""
    display = GammaDynamicsDisplay.from_history(history, bins=2)
    lower = [
        {**row, "gamma": [-2.0] * 3, "calibration_gap": [0] * 3} for row in history
    ]
    GammaDynamicsDisplay.from_history(lower, bins=2, ax=display.axes_)
    ax = display.axes_[1, 0]
    assert ax.get_ylim()[0] < -2
    (band,) = ax.patches
    assert reach(band)[0] == pytest.approx(ax.get_ylim()[0])
    # A scale that the user has set stays.
    ax.set_yscale("symlog")
    steep = [{**row, "gamma": [900.0] * 3} for row in lower]
    GammaDynamicsDisplay.from_history(steep, bins=2, ax=display.axes_)
    assert ax.get_yscale() == "symlog"


def test_within_an_axes(history):
    """The neighbours do not move, and the panels replace the axes."""
    figure, (left, right) = plt.subplots(1, 2)
    before = left.get_position().bounds, right.get_position()
    display = GammaDynamicsDisplay.from_history(history, bins=[0, 2], ax=right)
    assert display.figure_ is figure
    assert left.get_position().bounds == before[0]
    assert not right.axison
    for ax in display.axes_.flat:
        box = ax.get_position()
        assert before[1].x0 <= box.x0 < box.x1 <= before[1].x1 + 1e-9


def test_axes_of_the_user(history):
    _, axes = plt.subplots(2, 2)
    display = GammaDynamicsDisplay.from_history(history, bins=[0, 2], ax=axes)
    assert (display.axes_ == axes).all()
    assert axes[0, 0].get_title() == "Bin 0, lowest"


def test_unbounded_gamma_is_on_a_logarithmic_scale(history, draw_all):
    """In all panels, which have the same scale."""
    history[2]["gamma"], history[3]["gamma"] = [1e17, 50.0], [np.inf, 50.0]
    display = GammaDynamicsDisplay.from_history(history, bins=[0, 1])
    draw_all(display.figure_)
    scales = [ax.get_yscale() for ax in display.axes_[1]]
    assert scales == ["asinh", "asinh"]


def test_shared_axes(history):
    """Bins can be compared: all panels of a row have the same limits."""
    history[3]["gamma"] = [0.1, 0.5, 20.0]
    display = GammaDynamicsDisplay.from_history(history)
    for row in display.axes_:
        assert len({ax.get_ylim() for ax in row}) == 1
        assert [ax.yaxis.get_tick_params()["labelleft"] for ax in row] == [
            True,
            False,
            False,
        ]
    assert display.axes_[0, 0].get_ylim() != display.axes_[1, 0].get_ylim()


@pytest.mark.parametrize("loss", ["ada_dual_focal", "adafocal", "calfocal"])
def test_from_estimator(loss):
    net = fit(loss=loss, loss__n_bins=5)
    display = GammaDynamicsDisplay.from_estimator(net, bins=2)
    expected = np.array(net.history_[:, "gamma"])[:, 2]
    assert_array_equal(display.gamma_lines_[0].get_ydata(), expected)
    assert legend_texts(display)[0] == type(net.criterion_).__name__


def fit(**params):
    X = np.random.default_rng(0).normal(size=(60, 3))
    params = {"validation_fraction": 0.5, **params}
    net = NeuralClassifier(max_epochs=2, random_state=0, **params)
    return net.fit(X, X[:, 0] > 0)


@pytest.mark.parametrize(
    "params",
    [
        {"loss": "cross_entropy", "callbacks": [RecordBins(n_bins=5)]},
        {"loss": "calfocal", "loss__per_sample": True, "loss__n_bins": 5},
    ],
    ids=["RecordBins", "calfocal"],
)
def test_loss_with_no_gamma_of_a_bin(params):
    net = fit(**params)
    display = GammaDynamicsDisplay.from_estimator(net, bins=2)
    bins = net.history_[:, ("bin_confidence", "bin_accuracy")]
    gap = [confidence[2] - accuracy[2] for confidence, accuracy in bins]
    assert_array_equal(display.gap_lines_[0].get_ydata(), gap)
    assert legend_texts(display) == [type(net.criterion_).__name__]


def test_one_bin_has_all_samples():
    display = GammaDynamicsDisplay.from_estimator(fit(loss="adafocal", loss__n_bins=1))
    assert [ax.get_title() for ax in display.axes_[0]] == ["All samples"]
    assert display.gamma.shape == (2, 1)


@pytest.mark.usefixtures("undrawn")
def test_the_run_with_validation_data_is_shown():
    net = fit(loss="adafocal", loss__n_bins=5, refit=True)
    display = GammaDynamicsDisplay.from_estimator(net)
    expected = np.array(net.validation_history_[:, "gamma"])
    assert_array_equal(display.gamma, expected)


def test_no_gap_was_recorded():
    X = np.random.default_rng(0).normal(size=(20, 3))
    net = NeuralClassifier(max_epochs=1).fit(X, X[:, 0] > 0)
    with pytest.raises(
        ValueError, match=r"contain calibration_gap in .*'adafocal'.*RecordBins\(\)"
    ):
        GammaDynamicsDisplay.from_estimator(net)


def test_the_losses_that_the_message_names_are_there():
    assert {"ada_dual_focal", "adafocal", "calfocal"} <= set(get_loss_names())


@pytest.mark.parametrize("estimator", [NeuralClassifier(), "adafocal"])
def test_no_history(estimator):
    with pytest.raises(TypeError, match="estimator must be a fitted NeuralClassifier"):
        GammaDynamicsDisplay.from_estimator(estimator)


@pytest.mark.parametrize("bins", [[], [3], [-1], "some", [1.0], [[0]]])
def test_bad_bins(bins):
    with pytest.raises(ValueError, match="bins must be indices from 0 to 2"):
        GammaDynamicsDisplay.from_history(make_history(), bins=bins)


def test_other_number_of_axes(history):
    _, axes = plt.subplots(2, 2)
    with pytest.raises(
        ValueError, match=r"shape \(2, 3\) for 3 bins, got shape \(2, 2"
    ):
        GammaDynamicsDisplay.from_history(history, ax=axes)


def test_other_bins_on_the_same_axes(history):
    axes = GammaDynamicsDisplay.from_history(history, bins=[0, 1]).axes_
    with pytest.raises(ValueError, match="ax must be axes of a display of the same bi"):
        GammaDynamicsDisplay.from_history(history, bins=[0, 2], ax=axes)
