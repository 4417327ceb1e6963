"""Confidence and correctness of predictions, and other confidence functions."""

import numpy as np
import pytest

from sklearn_calib._numerics.confidence import (
    CONFIDENCES,
    check_confidence,
    get_confidence,
)
from sklearn_calib._validation.arrays import FEW_COLUMNS
from sklearn_calib._validation.probabilities import as_proba_array
from sklearn_calib._validation.samples import top_label, top_label_correct

few_and_many = pytest.mark.parametrize(
    "n_classes", [2, FEW_COLUMNS, FEW_COLUMNS + 1, 300]
)


@few_and_many
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_is_argmax(n_classes, dtype):
    """Ties are resolved to the first column, with few and with many columns."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 3, size=(5000, n_classes)) + np.eye(n_classes)[0]
    proba = (counts / counts.sum(axis=1, keepdims=True)).astype(dtype)
    codes = rng.integers(n_classes, size=len(proba))

    confidence, predicted = top_label(proba)
    np.testing.assert_array_equal(predicted, proba.argmax(axis=1))
    np.testing.assert_array_equal(confidence, proba.max(axis=1))
    assert confidence.dtype == dtype

    confidence, correct = top_label_correct(proba, codes)
    np.testing.assert_array_equal(confidence, proba.max(axis=1))
    np.testing.assert_array_equal(correct, proba.argmax(axis=1) == codes)


@few_and_many
def test_without_ties(n_classes):
    proba = np.random.default_rng(1).dirichlet(np.ones(n_classes), size=3000)
    codes = np.arange(len(proba)) % n_classes
    confidence, correct = top_label_correct(proba, codes)
    np.testing.assert_array_equal(confidence, proba.max(axis=1))
    np.testing.assert_array_equal(correct, proba.argmax(axis=1) == codes)


def test_correct_predictions_need_checked_probabilities():
    with pytest.raises(ValueError, match="must be finite"):
        top_label_correct(as_proba_array([[np.nan, 0.5]]), np.array([0]))
    with pytest.raises(ValueError, match="rows that sum to one"):
        top_label_correct(as_proba_array([[0.25, 0.5]]), np.array([0]))


all_confidences = pytest.mark.parametrize("name", CONFIDENCES)


@pytest.mark.parametrize(
    ("name", "even", "uneven", "certain"),
    [
        ("msp", 1 / 3, 0.5, 1),
        ("margin", 0, 0.2, 1),
        # ln(1/3); .5 ln .5 + .3 ln .3 + .2 ln .2
        ("negative_entropy", -1.0986122886681098, -1.0296530140645737, 0),
        ("negative_gini", -2 / 3, -0.62, 0),
        ("l2_norm", 3**-0.5, 0.38**0.5, 1),
        ("max_logit", 1 / 3, 0.5, 1),
        # Centred: (-4, 5, -1) / 30 and (-1, 2, -1) / 3.
        ("p_norm", 0, 5 / (4**4 + 5**4 + 1) ** 0.25, 2 / 18**0.25),
    ],
)
def test_values(name, even, uneven, certain):
    proba = np.array([[1 / 3] * 3, [0.2, 0.5, 0.3], [0, 1, 0]])
    values = get_confidence(name)(proba)
    np.testing.assert_allclose(values, [even, uneven, certain], rtol=1e-12, atol=1e-15)


def test_every_function_has_its_values():
    (mark,) = test_values.pytestmark
    assert {row[0] for row in mark.args[1]} == set(CONFIDENCES)


def test_max_logit_of_logits():
    values = get_confidence("max_logit")(np.array([[-3.0, 7.5], [-1.0, -2.0]]))
    np.testing.assert_array_equal(values, [7.5, -1.0])


@all_confidences
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_order_of_classes_does_not_matter(name, dtype):
    """The results are equal bit by bit, so that equal samples are tied."""
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(30), size=3000).astype(dtype)
    values = get_confidence(name)(proba)
    permuted = get_confidence(name)(rng.permuted(proba, axis=1))
    np.testing.assert_array_equal(values, permuted)
    assert values.shape == (3000,)
    assert values.dtype == dtype


# "p_norm" does not depend on the scale, so it is constant on this line.
@pytest.mark.parametrize("name", sorted({*CONFIDENCES} - {"p_norm"}))
def test_confidence_increases_towards_a_one_hot_prediction(name):
    """Confidence increases from the uniform to a one-hot prediction."""
    weight = np.linspace(0, 1, 20)[:, None]
    proba = weight * np.eye(4)[2] + (1 - weight) / 4
    assert (np.diff(get_confidence(name)(proba)) > 0).all()


@all_confidences
def test_input_is_not_changed(name):
    proba = np.array([[0.9, 0.1, 0], [0.2, 0.8, 0]])
    get_confidence(name)(proba)
    np.testing.assert_array_equal(proba, [[0.9, 0.1, 0], [0.2, 0.8, 0]])


def test_p_norm_depends_on_the_direction_of_centred_logits_only():
    """It tells logits apart whose largest probability is the same."""
    logits = np.array([[4.0, 0, 0, 0], [4, 3, -9, -9]])
    values = get_confidence("p_norm")(logits)
    for other in (logits + 7, 1e-300 * logits, 1e300 * logits):
        np.testing.assert_allclose(get_confidence("p_norm")(other), values, rtol=1e-12)
    assert values[0] > values[1] > 0
    assert get_confidence("p_norm")(np.full((1, 3), 0.1)) == 0


def test_p_norm_of_two_classes_would_be_constant():
    with pytest.raises(ValueError, match=r"at least three classes, got 2: .* \"msp\""):
        get_confidence("p_norm")(np.array([[0.3, 0.7]]))


def test_callable_is_a_confidence_function():
    def first(proba):
        return proba[:, 0]

    assert get_confidence(first) is first


@pytest.mark.parametrize(
    ("confidence", "exception", "message"),
    [
        (
            "margn",
            ValueError,
            r"one of \['l2_norm'.* got 'margn'\. Did you mean 'margin'\?",
        ),
        ("zzz", ValueError, r"one of \['l2_norm'.* got 'zzz'\.$"),
        (3, TypeError, r"a name or a callable, got 3\. The names are"),
    ],
)
def test_unknown_confidence(confidence, exception, message):
    with pytest.raises(exception, match=message):
        get_confidence(confidence)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0.5, np.nan], r"must not be NaN, .* got NaN for 1 of 2\. Use -inf"),
        ([[0.5, 0.5]], r"of shape \(2,\), got shape \(1, 2\)\. Reduce"),
        ([0.5], r"of shape \(2,\), got shape \(1,\)"),
        (0.5, r"got shape \(\)"),
    ],
)
def test_bad_confidence(values, message):
    with pytest.raises(ValueError, match=message):
        check_confidence(values, 2)


def test_confidence_of_any_kind():
    np.testing.assert_array_equal(check_confidence([True, False], 2), [1.0, 0.0])
    np.testing.assert_array_equal(
        check_confidence([-np.inf, np.inf], 2), [-np.inf, np.inf]
    )
    assert check_confidence(np.zeros(2, np.float32), 2).dtype == np.float32
