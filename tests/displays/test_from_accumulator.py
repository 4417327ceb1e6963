"""Diagrams of an accumulator are those of all samples at once."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from sklearn_calib.displays import ReliabilityDisplay
from sklearn_calib.metrics import CalibrationAccumulator

NUMBERS = ["bin_edges", "counts", "prob_true", "prob_pred", "histogram", "ece", "band"]
WORDS = ["mode", "pos_label", "interval", "confidence_level", "name"]
LABELS = ["no", "yes"]


def problem(weighted=False, n_values=None, n_samples=500):
    """Return labels, probabilities of two classes, and weights or None.

    No cell contains two of few values.
    """
    rng = np.random.default_rng(0)
    y_proba = rng.random(n_samples)
    if n_values is not None:
        y_proba = np.ceil(n_values * y_proba) / (n_values + 1)
    y_true = np.array(LABELS)[(rng.random(n_samples) < y_proba**2).astype(int)]
    weight = rng.exponential(size=n_samples) if weighted else None
    return y_true, np.stack([1 - y_proba, y_proba], axis=1), weight


def both(data, mode, strategy="uniform", **options):
    """Return the displays of three merged chunks, and of all samples at once."""
    y_true, y_proba, weight = data
    bins = {"n_bins": 7, "strategy": strategy}
    total = sum(
        CalibrationAccumulator(labels=LABELS, mode=mode, **bins).update(
            y_true[rows], y_proba[rows], None if weight is None else weight[rows]
        )
        for rows in (slice(100), slice(100, 350), slice(350, None))
    )
    options = {"name": "one", "confidence_level": 0.9, "random_state": 0, **options}
    options["n_resamples"] = 100
    return (
        ReliabilityDisplay.from_accumulator(total, **options),
        ReliabilityDisplay.from_predictions(
            y_true,
            y_proba,
            labels=LABELS,
            mode=mode,
            sample_weight=weight,
            **bins,
            **options,
        ),
    )


def assert_equal(display, expected):
    for name in NUMBERS:
        value = getattr(expected, name)
        if value is not None:
            assert_allclose(getattr(display, name), value, atol=1e-9, err_msg=name)
    for name in WORDS:
        assert getattr(display, name) == getattr(expected, name)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("mode", ["top_label", "positive"])
@pytest.mark.parametrize("interval", ["clopper-pearson", "consistency", None])
@pytest.mark.parametrize("weighted", [False, True])
def test_equal_to_all_samples_at_once(mode, interval, weighted):
    """The draws are equal too, if the samples of a cell have equal confidences."""
    data = problem(weighted, n_values=30 if interval == "consistency" else None)
    assert_equal(*both(data, mode, interval=interval))


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("interval", ["clopper-pearson", "consistency"])
def test_quantile_bins_of_few_values(interval):
    """Without edges within cells, only the edges differ: they are ends of cells."""
    data = problem(weighted=True, n_values=30)
    display, expected = both(data, "positive", "quantile", interval=interval)
    assert_allclose(display.bin_edges, expected.bin_edges, atol=1e-3)
    display.bin_edges = expected.bin_edges
    assert_equal(display, expected)


@pytest.mark.usefixtures("undrawn")
def test_consistency_band_of_many_confidences():
    """Twenty different draws vary by a few percent of the width."""
    display, expected = both(problem(), "positive", interval="consistency")
    width = np.diff(expected.band, axis=0)
    assert (np.abs(display.band - expected.band) < 0.3 * width).all()


def test_drawn_figure():
    display, expected = both(problem(), "positive")
    assert display.line_.get_label() == expected.line_.get_label()
    assert display.histogram_ax_.get_xlabel() == expected.histogram_ax_.get_xlabel()
    for bar, other in zip(display.bars_, expected.bars_, strict=True):
        assert bar.get_height() == pytest.approx(other.get_height())
    ends, others = (each.band_.get_segments() for each in (display, expected))
    assert_allclose(ends, others)


@pytest.mark.usefixtures("undrawn")
def test_tiny_weights_have_the_whole_interval():
    """Their squares are zero, so the number of samples is not known."""
    accumulator = CalibrationAccumulator(labels=LABELS, n_bins=2, mode="positive")
    accumulator.update(["no", "yes"], [0.2, 0.3], [1e-170, 1e-170])
    accumulator.update(["yes"], [0.8], [1])
    display = ReliabilityDisplay.from_accumulator(accumulator)
    assert_allclose(display.band[:, 0], [0, 1], atol=1e-6)
    assert_allclose(display.band[:, 1], [0.025, 1])


@pytest.mark.usefixtures("undrawn")
def test_group_and_several_modes():
    y_true, y_proba, _ = problem()
    accumulator = CalibrationAccumulator(
        labels=LABELS, mode=["top_label", "positive", "classwise"]
    ).update(y_true, y_proba, groups=y_proba[:, 0] < 0.3)
    for mode in ("top_label", "positive"):
        display = ReliabilityDisplay.from_accumulator(accumulator, mode=mode)
        expected = ReliabilityDisplay.from_predictions(y_true, y_proba, mode=mode)
        assert_array_equal(display.counts, expected.counts)
    group = ReliabilityDisplay.from_accumulator(
        accumulator.groups_[True], mode="positive"
    )
    assert group.counts.sum() == (y_proba[:, 0] < 0.3).sum()


def test_refused():
    draw = ReliabilityDisplay.from_accumulator
    with pytest.raises(TypeError, match=r"accumulator must .* got list\. Use from_pre"):
        draw([0.1])
    params = {"labels": LABELS, "mode": "positive"}
    one = CalibrationAccumulator(**params)
    with pytest.raises(NotFittedError, match="does not contain any samples"):
        draw(one)
    one.update(LABELS, [0.1, 0.9])
    for wrong in ({"interval": "wald"}, {"confidence_level": 95}, {"n_resamples": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))!r} parameter"):
            draw(one, **wrong)
    with pytest.raises(ValueError, match=r"mode must be one of .* got 'top_label'"):
        draw(one, mode="top_label")
    with pytest.raises(ValueError, match=r"n_bins must .* got 1001\. Create the acc"):
        draw(CalibrationAccumulator(**params, n_bins=1001).update(LABELS, [0.1, 0.9]))
    of_classes = CalibrationAccumulator(labels=LABELS, mode="classwise")
    with pytest.raises(ValueError, match=r'mode must .* "classwise"\. Use a separate'):
        draw(of_classes.update(LABELS, [0.1, 0.9]))
