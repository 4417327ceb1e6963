"""`adjust_priors` and `estimate_priors`: class priors of arrays of probabilities."""

import numpy as np
import pytest
from scipy.special import logsumexp, softmax
from scipy.stats import beta
from sklearn.utils._param_validation import InvalidParameterError

from sklearn_calib.deployment import adjust_priors, estimate_priors
from sklearn_calib.deployment._priors import STRENGTHS, _draw, _fit

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


@pytest.mark.filterwarnings("ignore:The estimated priors of some classes")
@pytest.mark.filterwarnings("ignore:The predictions for")
def test_estimate_with_a_subnormal_training_prior():
    """Ratios to it would be infinite."""
    proba = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    estimates = [
        estimate_priors(proba, [0.5, 0.5, tiny], n_resamples=5, random_state=0)
        for tiny in (5e-324, 1e-300)
    ]
    for one, other in zip(*estimates, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_adjustment_keeps_single_precision():
    _, proba = draw(50, NEW)
    found = adjust_priors(proba.astype(np.float32), TRAIN, NEW)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, adjust_priors(proba, TRAIN, NEW), rtol=1e-5)


# Estimate


def test_maximum_with_certain_predictions_counts_them():
    """The pseudo-samples count as samples."""
    counts = np.array([20, 30, 50])
    likelihood = np.eye(3)[np.repeat(np.arange(3), counts)] / TRAIN
    priors, _ = _fit(likelihood, np.ones(100), 3 * TRAIN)
    np.testing.assert_allclose(priors, (counts + 3 * TRAIN) / 103, rtol=1e-8)


def test_maximum_is_what_em_converges_to():
    """The iteration of Saerens et al. (2002), with three pseudo-samples."""
    _, proba = draw(500, NEW)
    em = TRAIN
    for _ in range(500):
        em = (adjust_priors(proba, TRAIN, em).sum(axis=0) + 3 * TRAIN) / 503
    priors, _ = _fit(proba / TRAIN, np.ones(500), 3 * TRAIN)
    np.testing.assert_allclose(priors, em, atol=1e-9)


def test_maximum_agrees_with_the_package_of_the_authors():
    """Alexandari et al. (2020): abstention 0.1.3.1, EMImbalanceAdapter.

    It was run with tolerance 1e-12 and 10,000 iterations.
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
    priors, _ = _fit(proba / TRAIN, np.ones(4000), 1e-6 * TRAIN)
    np.testing.assert_allclose(priors, recorded, atol=1e-7)
    # The public estimate for such a shift has few pseudo-samples.
    priors, interval = estimate_priors(proba, TRAIN, random_state=0)
    np.testing.assert_allclose(priors, recorded, atol=0.002)
    assert (interval[:, 0] < NEW).all()
    assert (interval[:, 1] > NEW).all()


@pytest.mark.parametrize("prevalence", [0.1, 0.45])
def test_average_over_the_strengths_by_quadrature(prevalence):
    """The maxima and the marginal likelihoods on a grid of priors."""
    train = np.array([0.5, 0.5])
    _, proba = draw(200, [1 - prevalence, prevalence], train_priors=train)
    grid = np.linspace(0, 1, 10_001)[1:-1]
    ratio = proba / train
    log_likelihood = np.log(ratio[:, :1] * (1 - grid) + ratio[:, 1:] * grid).sum(axis=0)
    maxima, evidence = [], []
    for strength in STRENGTHS:
        log_posterior = log_likelihood + beta.logpdf(grid, 1 + strength, 1 + strength)
        maxima.append(grid[log_posterior.argmax()])
        evidence.append(logsumexp(log_posterior))
    expected = softmax(evidence) @ maxima
    priors, _ = estimate_priors(proba, train, n_resamples=1)
    assert priors[1] == pytest.approx(expected, abs=3e-4)


def test_without_a_shift_the_estimate_is_nearer_to_the_training_priors():
    """The mean squared error of the maximum is several times larger."""
    errors = []
    for seed in range(20):
        _, proba = draw(500, TRAIN, random_state=seed)
        maximum, _ = _fit(proba / TRAIN, np.ones(500), 3 * TRAIN)
        average, _ = estimate_priors(proba, TRAIN, n_resamples=1)
        errors.append([((each - TRAIN) ** 2).sum() for each in (maximum, average)])
    maximum, average = np.mean(errors, axis=0)
    assert average < maximum / 4


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


def test_draws_agree_with_maxima_of_resampled_rows():
    """One step of Newton's method is close to the maximum."""
    _, proba = draw(500, NEW)
    likelihood, weight, counts = proba / TRAIN, np.ones(500), 3 * TRAIN
    start, _ = _fit(likelihood, weight, counts)
    options = counts, 100, np.random.RandomState(0)
    draws = _draw(likelihood, weight, start, *options)
    rng = np.random.RandomState(0)
    for found in draws:
        rows = rng.randint(500, size=500)
        expected, _ = _fit(likelihood[rows], weight, counts)
        np.testing.assert_allclose(found, expected, atol=0.006)
    assert draws.std(axis=0).min() > 0.01


def test_interval_contains_the_estimate_and_narrows():
    widths = []
    for n_samples in (500, 8000):
        _, proba = draw(n_samples, NEW)
        priors, interval = estimate_priors(proba, TRAIN, random_state=0)
        assert ((interval[:, 0] <= priors) & (priors <= interval[:, 1])).all()
        widths.append(np.diff(interval).mean())
    assert widths[0] / widths[1] == pytest.approx(4, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_interval_covers_the_priors(level):
    covered = []
    for seed in range(200):
        _, proba = draw(400, NEW, random_state=seed)
        _, interval = estimate_priors(
            proba, TRAIN, confidence_level=level, n_resamples=300, random_state=seed
        )
        covered.append(((interval[:, 0] <= NEW) & (interval[:, 1] >= NEW)).mean())
    # Three standard errors.
    deviation = 3 * np.std(covered) / np.sqrt(200)
    assert np.mean(covered) == pytest.approx(level, abs=deviation)


# Warnings


def test_warning_of_an_absent_class():
    proba = np.eye(3)[np.arange(2000) % 2 + 1]
    with pytest.warns(UserWarning, match=r"near zero: less than one of 2000 samples"):
        priors, _ = estimate_priors(proba, TRAIN, n_resamples=5)
    assert 0 < priors[0] < 2 / 2000


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


@pytest.mark.parametrize(
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
