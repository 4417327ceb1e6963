"""Theorems of Zhou et al. 2025, "Revisiting Reweighted Risk for Calibration".

Tested are the second inequalities of Lemma 4.1 and Prop. 4.3, the maps of Props. 4.2
and 4.4, and the whole of Prop. 4.7. The maps replace the largest probability and leave
the others, so that rows no longer sum to one; here the rest is shared out as well. The
first inequalities of 4.1 and 4.3 are wrong,
and so is the second of 4.3 as a strict one: their counterexamples are here. Prop. 4.5
is not tested, for it needs the expectation of the label given the whole vector of
probabilities, which no sample tells; its n is the number of classes.
"""

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import softmax

from sklearn_calib.metrics import (
    aurc_loss,
    classwise_calibration_error,
    expected_calibration_error,
)

BINNINGS = [(1, "uniform"), (15, "uniform"), (15, "quantile"), (10**4, "quantile")]
ROUNDING = 1e-12
HAIR = 1e-9
# A classifier with confidence 0.7 and accuracy 0.7.
CALIBRATED = np.array([0] * 7 + [1] * 3), np.tile([0.7, 0.3], (10, 1))


@st.composite
def problems(draw):
    """Draw columns of the true classes, and probabilities, with ties and zeros."""
    n_samples, n_classes = draw(st.integers(1, 20)), draw(st.integers(2, 5))
    shape = (n_samples, n_classes)
    counts = draw(hnp.arrays(int, shape, elements=st.integers(0, 9)))
    counts[:, 0] += counts.sum(axis=1) == 0
    codes = draw(hnp.arrays(int, n_samples, elements=st.integers(0, n_classes - 1)))
    return codes, counts / counts.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module", params=["cifar10", "cifar100"])
def real(request, shared_data):
    """Return the test predictions of a published network."""
    if request.param == "cifar10":
        data = shared_data("logits/cifar10_resnet110_kull.npz")
        logits = data["test_logits"][:2000].astype(np.float64)
        return data["test_labels"][:2000], softmax(logits, axis=1)
    data = shared_data("logits/cifar100_chenyaofo.npz")
    logits = data["resnet56"][:1000].astype(np.float64)
    return data["labels"][:1000], softmax(logits, axis=1)


def is_correct(codes, proba):
    return proba.argmax(axis=1) == codes


def error_rate(codes, proba):
    return np.mean(~is_correct(codes, proba))


def singleton_ece(codes, proba):
    """Return the calibration error with one bin for each sample."""
    return np.abs(is_correct(codes, proba) - proba.max(axis=1)).mean()


def singleton_classwise(codes, proba):
    """Return the class-wise calibration error with one bin for each sample."""
    return np.abs(np.eye(proba.shape[1])[codes] - proba).mean()


def log_losses(codes, proba):
    """Return the log loss of each sample, finite where a probability is zero."""
    return -np.log(np.maximum(proba[np.arange(len(codes)), codes], 1e-15))


def check_lower_bound(metric, singleton, codes, proba):
    """No binning exceeds single-sample bins, which have at least the error rate / K."""
    n_classes, supremum = proba.shape[1], singleton(codes, proba)
    for n_bins, strategy in BINNINGS:
        value = metric(
            codes, proba, n_bins=n_bins, strategy=strategy, labels=range(n_classes)
        )
        assert value <= supremum + ROUNDING
    assert supremum >= error_rate(codes, proba) / n_classes - ROUNDING


def check_area(codes, proba, confidence):
    """The area of the aligned confidence is the lowest, and at least (21)."""
    n_samples, n_classes = proba.shape
    options = {"loss": log_losses, "labels": range(n_classes)}
    options["estimator"] = "population"
    aligned = -log_losses(codes, proba)
    lowest = aurc_loss(codes, proba, confidence=aligned, **options)
    value = aurc_loss(codes, proba, confidence=confidence, **options)
    assert value >= lowest * (1 - ROUNDING)
    error = error_rate(codes, proba)
    bound = np.log(2) * (n_samples * error**2 + error) / (2 * (n_samples + 1))
    assert lowest >= bound * (1 - ROUNDING)


def ece_oracle(codes, proba):
    """Set correct predictions to 1 and wrong ones to 1 / K (Prop. 4.2)."""
    certain = np.eye(proba.shape[1])[proba.argmax(axis=1)]
    # Slightly more than the other classes, so that the predicted class is the same.
    unsure = (1 - HAIR) / proba.shape[1] + HAIR * certain
    return np.where(is_correct(codes, proba)[:, None], certain, unsure)


def classwise_oracle(codes, proba):
    """Set correct predictions to 1 and wrong ones to at most 1 / 2 (Prop. 4.4)."""
    n_classes = proba.shape[1]
    certain = np.eye(n_classes)[proba.argmax(axis=1)]
    excess = np.maximum(proba.max(axis=1, keepdims=True) - 0.5, 0)
    unsure = proba - excess * certain + excess * (1 - certain) / (n_classes - 1)
    return np.where(is_correct(codes, proba)[:, None], certain, unsure)


def check_oracle(metric, singleton, oracle, codes, proba):
    """No binning of the mapped probabilities exceeds the supremum before the map."""
    mapped = oracle(codes, proba)
    assert singleton(codes, mapped) <= singleton(codes, proba) + HAIR
    check_lower_bound(metric, singleton, codes, mapped)


@given(problems())
def test_lower_bound_of_ece(problem):
    """Lemma 4.1, second inequality."""
    check_lower_bound(expected_calibration_error, singleton_ece, *problem)


def test_lower_bound_of_ece_on_real_predictions(real):
    check_lower_bound(expected_calibration_error, singleton_ece, *real)


@given(problems())
def test_lower_bound_of_classwise_ece(problem):
    """Prop. 4.3, second inequality."""
    check_lower_bound(classwise_calibration_error, singleton_classwise, *problem)


def test_lower_bound_of_classwise_ece_on_real_predictions(real):
    check_lower_bound(classwise_calibration_error, singleton_classwise, *real)


@pytest.mark.parametrize(
    ("metric", "singleton"),
    [
        (expected_calibration_error, singleton_ece),
        (classwise_calibration_error, singleton_classwise),
    ],
)
def test_supremum_is_reached(metric, singleton):
    """Without ties, a sufficient number of bins puts each sample in a separate bin."""
    codes = np.arange(50) % 4
    proba = np.random.default_rng(0).dirichlet(np.ones(4), size=50)
    value = metric(codes, proba, n_bins=50, strategy="quantile")
    assert value == pytest.approx(singleton(codes, proba), rel=1e-12)


@pytest.mark.parametrize(
    ("metric", "singleton"),
    [
        (expected_calibration_error, singleton_ece),
        (classwise_calibration_error, singleton_classwise),
    ],
)
def test_first_inequalities_are_wrong(metric, singleton):
    """The error of the population is 0 here, below any supremum over binnings."""
    for n_bins, strategy in BINNINGS:
        value = metric(*CALIBRATED, n_bins=n_bins, strategy=strategy)
        assert value == pytest.approx(0, abs=ROUNDING)
    assert error_rate(*CALIBRATED) / 2 == pytest.approx(0.15)
    assert singleton(*CALIBRATED) == pytest.approx(0.42)


@pytest.mark.parametrize("row", [[1.0, 0.0], [0.5, 0.5]])
def test_second_inequality_of_classwise_ece_is_not_strict(row):
    """Without errors, both sides are zero."""
    codes = np.array([row.index(1.0) if 1.0 in row else 1])
    proba = np.array([row])
    assert singleton_classwise(codes, proba) == error_rate(codes, proba) / 2


@given(problems())
def test_map_that_is_best_for_ece(problem):
    """Prop. 4.2, which meets the bound of 4.1."""
    codes, proba = problem
    check_oracle(expected_calibration_error, singleton_ece, ece_oracle, *problem)
    reached = singleton_ece(codes, ece_oracle(codes, proba))
    assert reached == pytest.approx(error_rate(codes, proba) / proba.shape[1], rel=1e-6)


@given(problems())
def test_map_that_lowers_classwise_ece(problem):
    """Prop. 4.4, also with the other probabilities left as they are."""
    check_oracle(
        classwise_calibration_error, singleton_classwise, classwise_oracle, *problem
    )
    codes, proba = problem
    top = np.arange(len(codes)), proba.argmax(axis=1)
    mapped = proba.copy()
    mapped[top] = np.where(is_correct(codes, proba), 1, np.minimum(0.5, proba[top]))
    value = singleton_classwise(codes, mapped)
    assert value <= singleton_classwise(codes, proba) + ROUNDING


def test_map_that_lowers_classwise_ece_is_not_the_best(real):
    """The map of Prop. 4.2 is better, because its wrong predictions share a bin."""
    codes, proba = real
    finest = {"n_bins": len(codes), "strategy": "quantile"}
    best, half = (
        classwise_calibration_error(codes, oracle(codes, proba), **finest)
        for oracle in (ece_oracle, classwise_oracle)
    )
    assert best < half / 2


def test_map_that_lowers_classwise_ece_need_not_do_so_in_bins():
    """Only the supremum over all binnings is guaranteed to be lower."""
    codes, proba = CALIBRATED
    assert classwise_calibration_error(codes, proba) < ROUNDING
    assert classwise_calibration_error(codes, classwise_oracle(codes, proba)) > 0.1


def test_maps_on_real_predictions(real):
    """The maps keep the predictions, and the error with common bins decreases too."""
    codes, proba = real
    for metric, singleton, oracle in [
        (expected_calibration_error, singleton_ece, ece_oracle),
        (classwise_calibration_error, singleton_classwise, classwise_oracle),
    ]:
        check_oracle(metric, singleton, oracle, codes, proba)
        mapped = oracle(codes, proba)
        np.testing.assert_array_equal(mapped.argmax(axis=1), proba.argmax(axis=1))
        assert metric(codes, mapped) < metric(codes, proba)


@given(problems(), st.data())
def test_lower_bound_of_aurc(problem, data):
    """Prop. 4.7, for any confidence, with ties."""
    codes, proba = problem
    levels = hnp.arrays(int, len(codes), elements=st.integers(0, 5))
    check_area(codes, proba, data.draw(levels))


@pytest.mark.parametrize(
    "name", ["l2_norm", "margin", "msp", "negative_entropy", "negative_gini"]
)
def test_lower_bound_of_aurc_on_real_predictions(real, name):
    check_area(*real, name)


@pytest.mark.parametrize("estimator", ["mean", "harmonic", "population"])
@given(problem=problems(), data=st.data())
def test_best_confidence_ranks_by_the_loss(estimator, problem, data):
    """This holds for the zero-one loss, and for all estimators except "trapezoid"."""
    codes, proba = problem
    assume(0 < error_rate(codes, proba) < 1)
    levels = hnp.arrays(int, len(codes), elements=st.integers(0, 5))
    options = {"estimator": estimator, "labels": range(proba.shape[1])}
    value, lowest = (
        aurc_loss(codes, proba, confidence=confidence, **options)
        for confidence in (data.draw(levels), is_correct(codes, proba))
    )
    assert value >= lowest - ROUNDING


def test_trapezoids_favour_ties():
    """ "trapezoid" is not the default because tying two losses lowers it."""
    proba = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]]
    best, tied = (
        aurc_loss([0, 1, 1], proba, estimator="trapezoid", confidence=confidence)
        for confidence in ([3, 2, 1], [3, 1, 1])
    )
    assert tied == pytest.approx(2 / 9)
    assert best == pytest.approx(5 / 18)
