"""`adjust_priors` and `estimate_priors`: class priors of arrays of probabilities."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.utils._param_validation import InvalidParameterError

from sklearn_calib.deployment import adjust_priors, estimate_priors

TRAIN = np.array([0.5, 0.3, 0.2])
NEW = np.array([0.1, 0.3, 0.6])


def draw(n_samples, priors, *, distance=2.0, train_priors=TRAIN, random_state=0):
    """Return labels, and the true probabilities of the classes in training.

    The classes are Gaussians with unit variance and orthogonal means.
    """
    rng = np.random.default_rng(random_state)
    y = rng.choice(len(priors), n_samples, p=priors)
    x = rng.normal(size=(n_samples, len(priors)))
    x[np.arange(n_samples), y] += distance
    return y, softmax(distance * x + np.log(train_priors), axis=1)


# Adjustment


def test_adjustment_by_hand():
    # 0.2 * 0.9 / 0.5 = 0.36 and 0.8 * 0.1 / 0.5 = 0.16, of which the sum is 0.52.
    expected = [0.36 / 0.52, 0.16 / 0.52]
    found = adjust_priors([[0.2, 0.8]], [0.5, 0.5], [0.9, 0.1])
    np.testing.assert_allclose(found, [expected], rtol=1e-14)
    positive = adjust_priors([0.8], [0.5, 0.5], [0.9, 0.1])
    np.testing.assert_allclose(positive, expected[1:], rtol=1e-14)


def test_adjustment_gives_the_posterior_of_the_new_priors():
    _, proba = draw(100, NEW)
    _, expected = draw(100, NEW, train_priors=NEW)
    np.testing.assert_allclose(adjust_priors(proba, TRAIN, NEW), expected, rtol=1e-9)
    back = adjust_priors(adjust_priors(proba, TRAIN, NEW), NEW, TRAIN)
    np.testing.assert_allclose(back, proba, rtol=1e-9)


def test_adjustment_of_zeros_and_extreme_ratios():
    proba = [[1.0, 0.0], [0.0, 1.0], [1e-300, 1 - 1e-300]]
    found = adjust_priors(proba, [1e-6, 1 - 1e-6], [1.0, 0.0])
    np.testing.assert_array_equal(found, [[1, 0]] * 3)
    found = adjust_priors(proba, [0.5, 0.5], [0.4, 0.6])
    np.testing.assert_allclose(found, proba, atol=1e-15)


def test_adjustment_keeps_single_precision():
    _, proba = draw(50, NEW)
    found = adjust_priors(proba.astype(np.float32), TRAIN, NEW)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, adjust_priors(proba, TRAIN, NEW), rtol=1e-5)


# Estimate


def test_estimate_with_certain_predictions_counts_them():
    """The training priors count as one sample more."""
    counts = np.array([20, 30, 50])
    proba = np.eye(3)[np.repeat(np.arange(3), counts)]
    priors, interval = estimate_priors(proba, TRAIN, random_state=0)
    np.testing.assert_allclose(priors, (counts + TRAIN) / 101, rtol=1e-8)
    # The standard error of 0.5 with 100 samples is 0.05.
    np.testing.assert_allclose(interval[2], [0.4, 0.6], atol=0.03)


def test_estimate_is_what_em_converges_to():
    """Equation 2.9 of Saerens et al. (2002), with one more sample."""
    _, proba = draw(500, NEW)
    priors, _ = estimate_priors(proba, TRAIN, n_resamples=1)
    em = TRAIN
    for _ in range(2000):
        em = (adjust_priors(proba, TRAIN, em).sum(axis=0) + TRAIN) / 501
    np.testing.assert_allclose(priors, em, atol=1e-9)


def test_estimate_agrees_with_the_package_of_the_authors():
    """Alexandari et al. (2020): abstention 0.1.3.1, EMImbalanceAdapter.

    It was run with tolerance 1e-12 and 10,000 iterations; our additional sample changes
    the fourth digit.
    """
    _, proba = draw(4000, NEW)
    recorded = [0.10671219, 0.29512031, 0.59816749]
    recorded_rows = [
        [7.39825199e-04, 4.39228646e-02, 9.55337310e-01],
        [6.75673681e-03, 8.50891552e-01, 1.42351712e-01],
    ]
    np.testing.assert_allclose(
        adjust_priors(proba[:2], TRAIN, recorded), recorded_rows, rtol=1e-6
    )
    priors, interval = estimate_priors(proba, TRAIN, random_state=0)
    np.testing.assert_allclose(priors, recorded, atol=1 / 4001)
    assert (interval[:, 0] < NEW).all()
    assert (interval[:, 1] > NEW).all()


def test_no_shift_is_estimated_if_the_means_are_the_training_priors():
    _, proba = draw(300, TRAIN)
    mean = proba.mean(axis=0)
    priors, _ = estimate_priors(proba, mean, n_resamples=1)
    np.testing.assert_allclose(priors, mean, rtol=1e-8)


def test_two_classes_in_both_forms():
    _, proba = draw(200, [0.9, 0.1], train_priors=[0.5, 0.5])
    options = {"train_priors": [0.5, 0.5], "random_state": 0}
    both = estimate_priors(proba, **options)
    one = estimate_priors(proba[:, 1], **options)
    np.testing.assert_allclose(one[0], both[0], rtol=1e-9)
    np.testing.assert_allclose(one[1], both[1], rtol=1e-9)


def test_order_of_classes_and_samples_does_not_matter():
    _, proba = draw(300, NEW)
    priors, _ = estimate_priors(proba, TRAIN, n_resamples=1)
    permuted, _ = estimate_priors(proba[::-1, ::-1], TRAIN[::-1], n_resamples=1)
    np.testing.assert_allclose(permuted[::-1], priors, rtol=1e-8)


def test_weights():
    y, proba = draw(6000, NEW)
    options = {"train_priors": TRAIN, "random_state": 0, "n_resamples": 20}
    half = np.where(np.arange(6000) < 300, 1.0, 0.0)
    priors, interval = estimate_priors(proba, sample_weight=half, **options)
    few_priors, few_interval = estimate_priors(proba[:300], **options)
    np.testing.assert_allclose(priors, few_priors, rtol=1e-12)
    np.testing.assert_allclose(interval, few_interval, rtol=1e-12)
    scaled, _ = estimate_priors(proba, sample_weight=7 * half, **options)
    np.testing.assert_allclose(scaled, priors, rtol=1e-9)
    importance = (TRAIN / NEW)[y]  # the weighted data have the training priors
    back, _ = estimate_priors(proba, sample_weight=importance, **options)
    np.testing.assert_allclose(back, TRAIN, atol=0.05)


def test_interval_of_many_samples_is_drawn_from_fewer():
    """The width is that of all samples."""
    widths = []
    for n_samples in (5000, 45_000):
        _, proba = draw(n_samples, NEW)
        _, interval = estimate_priors(proba, TRAIN, random_state=0)
        widths.append(np.diff(interval).mean())
    assert widths[0] / widths[1] == pytest.approx(3, rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_interval_covers_the_priors(level):
    covered = []
    for seed in range(100):
        _, proba = draw(400, NEW, random_state=seed)
        _, (*_, (low, high)) = estimate_priors(
            proba, TRAIN, confidence_level=level, n_resamples=100, random_state=seed
        )
        covered.append(low <= NEW[-1] <= high)
    # Three standard deviations of a fraction of 100.
    deviation = 3 * np.sqrt(level * (1 - level) / 100)
    assert np.mean(covered) == pytest.approx(level, abs=deviation)


# Warnings


def test_warning_of_an_absent_class():
    proba = np.eye(3)[np.arange(2000) % 2 + 1]
    with pytest.warns(UserWarning, match=r"near zero: columns \[0\] have fewer than"):
        priors, _ = estimate_priors(proba, TRAIN, n_resamples=5)
    assert 0 < priors[0] < 1 / 2000


def test_warning_of_classes_that_look_alike():
    """The last two classes always have the same odds."""
    rng = np.random.default_rng(0)
    first = rng.uniform(size=(2000, 1))
    proba = np.hstack([first, (1 - first) * 0.6, (1 - first) * 0.4])
    with pytest.warns(UserWarning, match="as little .* as 0.0 labelled samples"):
        priors, _ = estimate_priors(proba, TRAIN, n_resamples=5)
    # Their frequencies stay in the ratio of training.
    assert priors[1] / priors[2] == pytest.approx(1.5, rel=1e-6)


def test_warning_of_few_samples():
    _, proba = draw(30, NEW)
    with pytest.warns(UserWarning, match="30 samples contain as little information"):
        estimate_priors(proba, TRAIN, n_resamples=5)


def test_information_is_that_of_the_labels_for_certain_predictions(recwarn):
    estimate_priors(np.eye(2)[np.arange(26) % 2], [0.5, 0.5], n_resamples=5)
    assert not recwarn
    with pytest.warns(UserWarning, match="24 samples .* about the priors as 24.0 lab"):
        estimate_priors(np.eye(2)[np.arange(24) % 2], [0.5, 0.5], n_resamples=5)


# Bad input


@pytest.mark.each(
    ("priors", "message"),
    [
        ([0.5, 0.6], r"sum of the priors should be 1: priors .* sum 1\.1\. Divide"),
        ([1.5, -0.5], r"Priors must be non-negative: priors .* got \[1\.5, -0\.5\]"),
        ([0.5, 0.3, 0.2], r"must match number of classes: priors .* \(2,\), got \(3,"),
        ([[0.5, 0.5]], r"must match number of classes: priors .* got \(1, 2\)"),
        ([np.nan, 0.5], "Priors must be non-negative: .*nan"),
        ([np.inf, 0.5], "sum of the priors should be 1: .* sum inf"),
        (["a", "b"], "priors must contain numbers: could not convert string"),
    ],
)
def test_bad_priors(priors, message):
    with pytest.raises(ValueError, match=message):
        adjust_priors([[0.2, 0.8]], [0.5, 0.5], priors)


def test_bad_training_priors():
    with pytest.raises(ValueError, match=r"train_priors must be positive.* \[1\]"):
        adjust_priors([[0.2, 0.8]], [1.0, 0.0], [0.5, 0.5])
    with pytest.raises(ValueError, match="train_priors must be positive"):
        estimate_priors([[0.2, 0.8]], [1.0, 0.0])
    with pytest.raises(InvalidParameterError, match="'train_priors' parameter"):
        estimate_priors([[0.2, 0.8]], "balanced")


def test_bad_probabilities():
    with pytest.raises(ValueError, match="Found array with 0 sample"):
        estimate_priors(np.empty((0, 2)), [0.5, 0.5])
    with pytest.raises(ValueError, match="y_proba must be finite, got NaN"):
        estimate_priors([[np.nan, 0.5]], [0.5, 0.5])
    with pytest.raises(ValueError, match="rows that sum to one"):
        estimate_priors([[0.5, 0.9]], [0.5, 0.5])
    with pytest.raises(ValueError, match="sample_weight must be non-negative"):
        estimate_priors([[0.5, 0.5]], [0.5, 0.5], sample_weight=[-1.0])
