"""Coverage of the bands of reliability diagrams, with and without weights."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import isotonic_regression
from scipy.stats import binomtest

from sklearn_calib._numerics.bands import simultaneous_band
from sklearn_calib.displays import (
    CorpReliabilityDisplay,
    ReliabilityDisplay,
    SmoothReliabilityDisplay,
)

BINS, CORP, SMOOTH = (
    ReliabilityDisplay,
    CorpReliabilityDisplay,
    SmoothReliabilityDisplay,
)
ALL_BANDS = [
    (BINS, "clopper-pearson"),
    (BINS, "consistency"),
    (BINS, "simultaneous"),
    (CORP, "consistency"),
    (CORP, "simultaneous"),
    (SMOOTH, "bootstrap"),
    (SMOOTH, "consistency"),
    (SMOOTH, "simultaneous"),
]
all_bands = pytest.mark.parametrize(("display_class", "interval"), ALL_BANDS)
N_TRIALS = 20


def draw(display_class, y_true, y_proba, **options):
    """Return the display of a positive class."""
    options = {"n_resamples": 100, "random_state": 0, "labels": [0, 1], **options}
    return display_class.from_predictions(y_true, y_proba, **options)


def sample(rng, n_samples, power=1.0):
    """Return labels and probabilities, which are calibrated for a power of 1."""
    y_proba = rng.random(n_samples)
    return (rng.random(n_samples) < y_proba**power).astype(int), y_proba


@pytest.mark.usefixtures("undrawn")
def test_clopper_pearson_of_each_bin():
    y_proba = np.repeat([0.1, 0.5, 0.9], [10, 4, 2])
    y_true = np.repeat([0, 1, 0, 1, 0], [10, 1, 3, 1, 1])
    display = draw(BINS, y_true, y_proba, n_bins=5, interval="clopper-pearson")
    filled = [0, 2, 4]
    for index, n_correct, count in zip(filled, [0, 1, 1], [10, 4, 2], strict=True):
        expected = binomtest(n_correct, count).proportion_ci(method="exact")
        assert_allclose(display.band[:, index], expected, rtol=1e-10)
    # By hand: at the upper limit p, none of ten is correct with probability 2.5 %,
    # (1 - p)^10.
    assert_allclose(display.band[:, 0], [0, 1 - 0.025**0.1])
    assert np.isnan(display.band[:, [1, 3]]).all()


@pytest.mark.usefixtures("undrawn")
def test_consistency_band_of_a_single_bin_is_that_of_the_binomial():
    """With confidence 0.3, 21 to 39 of 100 samples are positive in 95 of 100 cases."""
    y_true = np.arange(100) < 50
    display = draw(
        BINS,
        y_true,
        np.full(100, 0.3),
        n_bins=1,
        interval="consistency",
        n_resamples=20_000,
    )
    assert_allclose(display.band[:, 0], [0.21, 0.39])


@pytest.mark.usefixtures("undrawn")
def test_bins_are_kept_apart():
    """On both sides of an edge, within the rounding of confidences."""
    y_proba = np.repeat([0.5, 0.50001], [30, 60])
    display = draw(
        BINS, y_proba > 0.5, y_proba, n_bins=2, interval="consistency", n_resamples=5000
    )
    assert_allclose(display.band, [[1 / 3, 3 / 8], [2 / 3, 5 / 8]], atol=0.02)


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("n_samples", [60, 500])
@all_bands
def test_coverage_of_a_calibrated_classifier(display_class, interval, n_samples):
    """The interval around the accuracy contains the confidence, and vice versa."""
    rng = np.random.default_rng(0)
    held = []
    for _ in range(N_TRIALS):
        y_true, y_proba = sample(rng, n_samples)
        display = draw(display_class, y_true, y_proba, interval=interval)
        is_around = interval in {"clopper-pearson", "bootstrap"}
        inside = display.prob_pred if is_around else display.prob_true
        low, high = display.band
        # Points that are drawn, away from the ends of the interval.
        seen = (inside >= 0) & (display.prob_pred > 0.05) & (display.prob_pred < 0.95)
        held.append(((low <= inside) & (inside <= high))[seen].mean())
    # The accuracy of few samples is discrete, which makes bands conservative. Those of
    # the percentile bootstrap are too narrow.
    lowest = 0.88 if interval == "bootstrap" else 0.93
    assert lowest < np.mean(held) <= 1


def test_simultaneous_band_of_independent_points():
    """Its tail t at each of ten points is that of (1 - 2 t)^10 = 0.9: 0.52 %."""
    draws = np.random.default_rng(0).random((20_000, 10))
    low, high = simultaneous_band(draws, 0.9)
    assert_allclose([low, 1 - high], 0.0052, atol=0.0015)
    inside = ((low <= draws) & (draws <= high)).all(axis=1)
    assert inside.mean() == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize("n_points", [10, 200])
def test_simultaneous_band_contains_new_draws(n_points):
    """Also if the band is wider than the range of the draws, as for 200 points."""
    draws = 0.5 + 0.1 * np.random.default_rng(0).normal(size=(2000, n_points))
    band = simultaneous_band(draws[:500], 0.9)
    is_wider = (band[0] < draws[:500].min(axis=0)).all()
    assert is_wider == (n_points == 200)
    inside = ((band[0] <= draws[500:]) & (draws[500:] <= band[1])).all(axis=1)
    assert 0.86 < inside.mean() < 0.94


@pytest.mark.usefixtures("undrawn")
def test_simultaneous_band_of_the_display_contains_whole_curves():
    """Of 19 in 20 calibrated samples; the pointwise band contains few of them."""
    rng = np.random.default_rng(0)
    y_proba = np.sort(rng.random(200))
    drawn = (rng.random((500, 200)) < y_proba).astype(float)
    curves = np.array([isotonic_regression(each).x for each in drawn])
    held = []
    for interval in ("simultaneous", "consistency"):
        options = {"interval": interval, "n_resamples": 1000}
        low, high = draw(CORP, drawn[0], y_proba, **options).band
        held.append(((low <= curves) & (curves <= high)).all(axis=1).mean())
    assert held[0] > 0.9
    assert held[1] < 0.5


@pytest.mark.usefixtures("undrawn")
@all_bands
def test_power(display_class, interval):
    """Probabilities that are too low by up to 0.25 are outside the band."""
    y_true, y_proba = sample(np.random.default_rng(0), 2000, power=0.5)
    display = draw(display_class, y_true, y_proba, interval=interval)
    is_around = interval in {"clopper-pearson", "bootstrap"}
    inside = display.prob_pred if is_around else display.prob_true
    middle = (display.prob_pred > 0.1) & (display.prob_pred < 0.5)
    outside = (inside < display.band[0]) | (inside > display.band[1])
    assert outside[middle].mean() > 0.9


@pytest.mark.usefixtures("undrawn")
@all_bands
def test_repeatable(display_class, interval):
    y_true, y_proba = sample(np.random.default_rng(0), 50)
    one, same = (
        draw(display_class, y_true, y_proba, interval=interval) for _ in range(2)
    )
    assert_array_equal(one.band, same.band)


@pytest.mark.usefixtures("undrawn")
@all_bands
def test_order_of_the_samples_does_not_matter(display_class, interval):
    y_true, y_proba = sample(np.random.default_rng(0), 50)
    one = draw(display_class, y_true, y_proba, interval=interval)
    other = draw(display_class, y_true[::-1], y_proba[::-1], interval=interval)
    assert_allclose(one.band, other.band, atol=1e-12)


@pytest.mark.usefixtures("undrawn")
@all_bands
def test_equal_weights_leave_the_band_and_zeros_leave_samples_out(
    display_class, interval
):
    y_true, y_proba = sample(np.random.default_rng(0), 50)
    options = {"interval": interval, "labels": [0, 1]}
    one = draw(display_class, y_true[:40], y_proba[:40], **options)
    weight = np.where(np.arange(50) < 40, 3.0, 0.0)
    other = draw(display_class, y_true, y_proba, sample_weight=weight, **options)
    assert_allclose(one.band, other.band, atol=1e-12)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("interval", ["clopper-pearson", "consistency"])
def test_unequal_weights_count_as_fewer_samples(interval):
    """Half of the samples have nine tenths of the weight: 61 of 100 are effective."""
    rng = np.random.default_rng(0)
    y_true, y_proba = rng.random(1000) < 0.5, np.full(1000, 0.5)
    weight = np.where(np.arange(1000) < 500, 9.0, 1.0)
    options = {"interval": interval, "n_bins": 1, "n_resamples": 5000}
    plain = draw(BINS, y_true, y_proba, **options)
    weighted = draw(BINS, y_true, y_proba, sample_weight=weight, **options)
    ratio = np.diff(weighted.band, axis=0) / np.diff(plain.band, axis=0)
    assert ratio[0, 0] == pytest.approx(np.sqrt(1 / 0.61), rel=0.05)


@pytest.mark.parametrize("display_class", [BINS, CORP, SMOOTH])
def test_without_a_band(display_class):
    options = {"interval": None, "histogram": False}
    display = draw(display_class, [0, 1, 1], [0.2, 0.3, 0.9], **options)
    assert display.band is None
    assert display.band_ is None
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert not any("95" in text for text in texts)


@all_bands
def test_legend_tells_the_level(display_class, interval):
    y_true, y_proba = sample(np.random.default_rng(0), 50)
    options = {"interval": interval, "confidence_level": 0.9, "n_resamples": 5}
    display = draw(display_class, y_true, y_proba, **options, histogram=False)
    text = display.ax_.get_legend().get_texts()[1].get_text()
    words = {
        "consistency": "if calibrated",
        "simultaneous": "if calibrated, as a whole",
    }
    assert text == f"90 % {words.get(interval, 'interval')}"


@pytest.mark.parametrize("display_class", [BINS, CORP, SMOOTH])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"interval": "wald"}, "'interval' parameter"),
        ({"confidence_level": 95}, "'confidence_level' parameter"),
        ({"n_resamples": 0}, "'n_resamples' parameter"),
        ({"random_state": "no"}, "'random_state' parameter"),
    ],
)
def test_wrong_options(display_class, options, message):
    with pytest.raises(ValueError, match=message):
        draw(display_class, [0, 1], [0.2, 0.9], **options)
