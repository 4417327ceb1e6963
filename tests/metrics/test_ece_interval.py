"""Coverage and width of `ece_interval`, and values of `ece_consistency_bound`."""

import numpy as np
import pytest

from sklearn_calib.metrics import (
    ece_consistency_bound,
    ece_interval,
    expected_calibration_error,
)

# True probability of the positive class as a function of the predicted one, for a
# calibrated model and for models that are miscalibrated everywhere or in one half.
TRUTHS = {
    "calibrated": lambda p: p,
    "off by 0.05": lambda p: np.clip(p - 0.05, 0, 1),
    "off by 0.15": lambda p: np.clip(p - 0.15, 0, 1),
    "one half": lambda p: np.where(p > 0.6, p - 0.1, p),
    "wavy": lambda p: np.clip(p - 0.05 * np.sin(20 * p), 0, 1),
}


def draw(rng, truth, n_samples):
    """Draw predictions of the positive class, and labels."""
    proba = rng.uniform(0.02, 1, size=n_samples)
    return rng.uniform(size=n_samples) < truth(proba), proba


def true_error(truth, n_bins=15, norm="l1"):
    """Return the error of the true probabilities in bins of equal width."""
    proba = np.linspace(0.02, 1, 200_001)
    index = np.ceil(proba * n_bins).astype(int) - 1
    mass = np.bincount(index, minlength=n_bins) / len(proba)
    gap = np.bincount(index, proba - truth(proba), n_bins) / len(proba) / mass
    if norm == "max":
        return np.abs(gap).max()
    return mass @ np.abs(gap) if norm == "l1" else np.sqrt(mass @ gap**2)


def draw_classes(rng, n_samples, n_classes):
    """Draw predictions of several classes, and calibrated labels."""
    proba = rng.dirichlet(np.ones(n_classes), size=n_samples)
    labels = (rng.uniform(size=(n_samples, 1)) > proba.cumsum(axis=1)).sum(axis=1)
    return labels, proba


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize("name", TRUTHS)
def test_coverage(name, norm):
    """At a level of 0.9, in 200 samples; 0.84 is three standard errors below."""
    rng, truth = np.random.default_rng(0), TRUTHS[name]
    expected = true_error(truth, norm=norm)
    held = 0
    for seed in range(200):
        y_true, y_proba = draw(rng, truth, 500)
        low, high = ece_interval(
            y_true,
            y_proba,
            norm=norm,
            labels=[False, True],
            confidence_level=0.9,
            n_resamples=200,
            random_state=seed,
        )
        assert 0 <= low <= high <= 1
        held += low <= expected + 1e-12 and expected <= high
    assert held >= 0.84 * 200


def coverage_and_width(problem, n_samples, n_repeats=200, **options):
    """Return the coverage of the interval, and its width relative to the estimates.

    The spread is the range of the estimates from their quantile of 0.05 to that of
    0.95. A problem returns probabilities and the chances of the labels, from which the
    samples are drawn.
    """
    rng = np.random.default_rng(0)
    proba, chances = problem(rng, 50_000)
    n_classes = chances.shape[1]
    options = options | {"labels": range(n_classes)}
    value = expected_calibration_error(
        np.repeat(np.arange(n_classes), len(proba)),
        np.concatenate([proba] * n_classes),
        sample_weight=chances.T.ravel(),
        **options,
    )
    ends, estimates, cumulated = [], [], chances.cumsum(axis=1)[:, :-1]
    for seed in range(n_repeats):
        rows = rng.integers(len(proba), size=n_samples)
        labels = (rng.uniform(size=(n_samples, 1)) > cumulated[rows]).sum(axis=1)
        draws = {"confidence_level": 0.9, "n_resamples": 100, "random_state": seed}
        ends.append(ece_interval(labels, proba[rows], **options, **draws))
        estimates.append(expected_calibration_error(labels, proba[rows], **options))
    low, high = np.transpose(ends)
    spread = np.subtract(*np.quantile(estimates, [0.95, 0.05]))
    return ((low <= value) & (value <= high)).mean(), (high - low).mean() / spread


def positives(draw_proba, truth):
    """Return a problem of two classes."""

    def problem(rng, n_samples):
        proba = draw_proba(rng, n_samples)
        chance = truth(proba)
        return proba, np.column_stack([1 - chance, chance])

    return problem


def overconfident(rng, n_samples):
    """Return probabilities of ten classes that are far from calibrated."""
    proba = rng.dirichlet(np.full(10, 0.3), size=n_samples)
    chances = proba**0.3
    return proba, chances / chances.sum(axis=1, keepdims=True)


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize(
    ("problem", "n_samples", "mode"),
    [
        (
            positives(lambda rng, n: rng.uniform(0.02, 1, n), lambda p: p / 2),
            1000,
            None,
        ),
        (overconfident, 1000, "top_label"),
        (overconfident, 5000, "classwise"),
    ],
    ids=["positive", "top_label", "classwise"],
)
def test_width_where_gaps_are_clear(problem, n_samples, mode, norm):
    """The width is at most 1.3 times the spread of the estimates."""
    held, width = coverage_and_width(problem, n_samples, mode=mode, norm=norm)
    assert held >= 0.84
    assert width <= 1.3


@pytest.mark.slow
@pytest.mark.parametrize(("norm", "limit"), [("l1", 1.9), ("l2", 1.3)])
def test_width_where_some_bins_are_calibrated(norm, limit):
    """Calibrated bins do not make the interval of the clear gaps wider."""
    problem = positives(lambda rng, n: rng.uniform(0.02, 1, n), TRUTHS["one half"])
    held, width = coverage_and_width(problem, 5000, norm=norm)
    assert held >= 0.84
    assert width <= limit


@pytest.mark.slow
def test_width_of_the_largest_gap():
    """It is clear, and may be that of the last bins only."""
    problem = positives(lambda rng, n: rng.uniform(0.02, 1, n), lambda p: p / 2)
    options = {"norm": "max", "strategy": "quantile", "n_bins": 5}
    held, width = coverage_and_width(problem, 1000, **options)
    assert held >= 0.84
    assert width <= 1.3


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"norm": "l1"},
        {"norm": "l2"},
        {"norm": "max", "strategy": "quantile", "n_bins": 5},
    ],
    ids=["l1", "l2", "max"],
)
@pytest.mark.parametrize("factor", [0.5, 1, 2])
def test_coverage_of_a_rare_class(factor, options):
    """The class has a probability of 1 %, and half or twice this frequency."""
    problem = positives(
        lambda rng, n: rng.beta(1, 99, n), lambda p: np.minimum(factor * p, 1)
    )
    held, _ = coverage_and_width(problem, 1000, **options)
    assert held >= 0.84


def test_upper_end_when_gaps_are_near_the_noise():
    """It is too low in one of 20 samples. The noise must not be reflected at zero."""
    truth, options = TRUTHS["off by 0.05"], {"n_bins": 5, "confidence_level": 0.9}
    rng, expected = np.random.default_rng(0), true_error(truth, n_bins=5)
    ends = [
        ece_interval(
            *draw(rng, truth, 1000), **options, n_resamples=100, random_state=0
        )
        for _ in range(400)
    ]
    assert sum(high < expected for _, high in ends) <= 0.06 * 400


def test_a_bin_of_correct_predictions_has_noise():
    """Five of five correct at 0.9 are not evidence of a gap of 0.1."""
    low, high = ece_interval([1] * 5, [0.9] * 5, labels=[0, 1], random_state=0)
    assert low == 0
    assert high > 0.2


def test_the_plain_bootstrap_does_not_contain_zero():
    """This is the reason for a different interval."""
    y_true, y_proba = draw(np.random.default_rng(0), TRUTHS["calibrated"], 500)
    rng = np.random.default_rng(1)
    values = [
        expected_calibration_error(
            y_true, y_proba, sample_weight=rng.multinomial(500, np.full(500, 1 / 500))
        )
        for _ in range(200)
    ]
    assert np.quantile(values, 0.025) > 0.02
    assert ece_interval(y_true, y_proba, random_state=0)[0] == 0


def test_a_single_sample_does_not_determine_the_largest_gap():
    """A single wrong prediction with high confidence is not evidence of a large gap."""
    rng = np.random.default_rng(0)
    y_proba = np.append(rng.uniform(0.4, 0.6, size=300), 0.98)
    y_true = np.append(rng.uniform(size=300) < y_proba[:-1], False)
    assert expected_calibration_error(y_true, y_proba, norm="max") == 0.98
    low, high = ece_interval(y_true, y_proba, norm="max", random_state=0)
    assert low < 0.98 <= high


def test_largest_gap_that_is_clear():
    """The lower limit is that of the clear gap, for any noise in a small bin."""
    y_proba = np.append(np.full(2000, 0.8), np.full(40, 0.5))
    y_true = np.arange(2040) % 2
    low, high = ece_interval(y_true, y_proba, norm="max", random_state=0)
    assert 0.25 < low < 0.29
    assert 0.3 < high < 0.4


def test_swept_bins():
    """The number of bins is that of the metric."""
    y_true, y_proba = draw(np.random.default_rng(0), TRUTHS["one half"], 300)
    _, n_bins = expected_calibration_error(
        y_true, y_proba, n_bins="sweep", return_n_bins=True
    )
    assert ece_interval(y_true, y_proba, n_bins="sweep", random_state=0) == (
        ece_interval(y_true, y_proba, n_bins=n_bins, random_state=0)
    )
    with pytest.raises(ValueError, match='mode="classwise", got "sweep"'):
        ece_interval(y_true, y_proba, n_bins="sweep", mode="classwise")


def test_interval_narrows_to_the_error():
    """This is for many samples of a miscalibrated model."""
    data = draw(np.random.default_rng(0), TRUTHS["off by 0.15"], 200_000)
    low, high = ece_interval(*data, random_state=0)
    assert low < expected_calibration_error(*data) < high
    assert 0.003 < high - low < 0.006


@pytest.mark.parametrize("mode", ["top_label", "classwise"])
def test_interval_of_several_classes(mode):
    labels, proba = draw_classes(np.random.default_rng(0), 400, 4)
    options = {"mode": mode, "random_state": 0}
    assert ece_interval(labels, proba, **options)[0] == 0
    low, high = ece_interval((labels + 1) % 4, proba, **options)
    error = expected_calibration_error((labels + 1) % 4, proba, mode=mode)
    assert 0 < low < error < high


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("mode", ["positive", "top_label", "classwise"])
def test_weights_and_order(mode, strategy):
    """Gaps and noise are those of the weighted samples, in any order."""
    rng = np.random.default_rng(0)
    y_true, proba = draw(rng, TRUTHS["one half"], 300)
    options = {"mode": mode, "strategy": strategy, "random_state": 0}
    options["n_resamples"] = 300
    expected = ece_interval(y_true, proba, **options)
    order = rng.permutation(300)
    assert ece_interval(y_true[order], proba[order], **options) == pytest.approx(
        expected
    )
    halves = np.full(300, 0.5)
    assert ece_interval(
        y_true, proba, sample_weight=halves, **options
    ) == pytest.approx(expected)
    bound = ece_consistency_bound(proba, **options)
    assert ece_consistency_bound(proba[order], **options) == pytest.approx(bound)
    # An interval is wider where few samples have most of the weight.
    few = np.where(np.arange(300) % 10, 0.01, 1)
    low, high = ece_interval(y_true, proba, sample_weight=few, **options)
    assert high - low > expected[1] - expected[0]
    assert ece_consistency_bound(proba, sample_weight=few, **options) > bound


@pytest.mark.parametrize(
    ("mode", "norm"),
    [
        ("top_label", "l1"),
        ("top_label", "l2"),
        ("top_label", "max"),
        ("classwise", "l1"),
        ("classwise", 1.5),
    ],
)
def test_consistency_bound_is_a_quantile(mode, norm):
    """The error of calibrated labels is below the bound with the given probability."""
    rng = np.random.default_rng(0)
    _, proba = draw_classes(rng, 300, 3)
    options = {"mode": mode, "norm": norm, "strategy": "quantile", "n_bins": 10}
    bound = ece_consistency_bound(proba, level=0.8, random_state=0, **options)
    below, cumulated = 0, proba.cumsum(axis=1)
    for _ in range(400):
        labels = (rng.uniform(size=(300, 1)) > cumulated).sum(axis=1)
        error = expected_calibration_error(labels, proba, labels=range(3), **options)
        below += error < bound
    assert 0.74 < below / 400 < 0.86


def test_consistency_bound_of_the_positive_class():
    proba = np.random.default_rng(0).uniform(size=300)
    both = np.column_stack([1 - proba, proba])
    bound = ece_consistency_bound(proba, random_state=0)
    assert ece_consistency_bound(both, mode="positive", random_state=0) == bound
    assert ece_consistency_bound(both, random_state=0) != bound


def test_consistency_bound_by_hand():
    """The gap of one sample at 0.7 is 0.3 with probability 0.7, otherwise 0.7."""
    bound = ece_consistency_bound([0.7], level=0.65, random_state=0)
    assert bound == pytest.approx(0.3)
    bound = ece_consistency_bound([0.7], level=0.75, random_state=0)
    assert bound == pytest.approx(0.7)
    assert ece_consistency_bound([0.0, 1.0], random_state=0) == 0


@pytest.mark.parametrize("function", [ece_interval, ece_consistency_bound])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_resamples", 0),
        ("n_bins", 0),
        ("norm", "l3"),
        ("norm", 0.5),
        ("random_state", "a"),
    ],
)
def test_bad_options(function, name, value):
    data = ([0.2, 0.8],) if function is ece_consistency_bound else ([0, 1], [0.2, 0.8])
    with pytest.raises(ValueError, match=f"'{name}' parameter"):
        function(*data, **{name: value})


@pytest.mark.parametrize("level", [0, 1, 95])
def test_bad_levels(level):
    with pytest.raises(ValueError, match="'confidence_level' parameter"):
        ece_interval([0, 1], [0.2, 0.8], confidence_level=level)
    with pytest.raises(ValueError, match="'level' parameter"):
        ece_consistency_bound([0.2, 0.8], level=level)


def test_bad_probabilities():
    with pytest.raises(ValueError, match="not logits"):
        ece_consistency_bound([[-4.0, 5.0]])


@pytest.mark.parametrize("options", [{}, {"norm": "l2"}, {"mode": "classwise"}])
def test_the_value_is_never_outside(options):
    """This includes intervals at a low level, which are short."""
    rng = np.random.default_rng(0)
    for n_samples in [*range(2, 20), 40, 59]:
        y_proba = rng.dirichlet(np.ones(2), n_samples)
        y_true = rng.integers(2, size=n_samples)
        given = {"labels": [0, 1], **options}
        draws = {"n_resamples": 100, "random_state": 0}
        low, high = ece_interval(
            y_true, y_proba, confidence_level=0.05, **given, **draws
        )
        value = expected_calibration_error(y_true, y_proba, **given)
        assert low <= value + 1e-12
        assert value <= high + 1e-12


@pytest.mark.parametrize("n_classes", [2, 3])
def test_frequencies_of_classes_have_noise(n_classes):
    """The gaps are 0 in the sample, but not in the population."""
    y_true = np.arange(300) % n_classes
    y_proba = np.full((300, n_classes), 1 / n_classes)
    low, high = ece_interval(y_true, y_proba, mode="classwise", random_state=0)
    assert low == 0
    assert high > np.sqrt((1 - 1 / n_classes) / n_classes / 300)


@pytest.mark.parametrize("norm", ["l1", "max"])
def test_order_where_confidences_are_equal(norm):
    """Samples with the same confidence may have different predicted classes."""
    rng = np.random.default_rng(0)
    proba = np.round(rng.uniform(size=200), 1)
    y_true = rng.integers(2, size=200)
    order = rng.permutation(200)
    options = {"mode": "classwise", "norm": norm, "random_state": 0}
    expected = ece_interval(y_true, proba, **options)
    assert ece_interval(y_true[order], proba[order], **options) == pytest.approx(
        expected
    )
    bound = ece_consistency_bound(proba, **options)
    assert ece_consistency_bound(proba[order], **options) == pytest.approx(bound)
