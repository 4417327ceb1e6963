"""`label_shift_calibration_error`: calibration errors for new class frequencies."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn.metrics import brier_score_loss

from sklearn_calib.deployment import estimate_priors, label_shift_calibration_error
from sklearn_calib.metrics import (
    classwise_calibration_error,
    expected_calibration_error,
)

TRAIN, NEW = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.3, 0.6])
LABELS = np.array(["rose", "iris", "aster"])


def draw(n_samples, priors, random_state, n_classes=3):
    """Return labels, and the true probabilities of the classes in training."""
    rng = np.random.default_rng(random_state)
    priors = priors[:n_classes] / priors[:n_classes].sum()
    y = rng.choice(n_classes, n_samples, p=priors)
    x = rng.normal(size=(n_samples, n_classes))
    x[np.arange(n_samples), y] += 1.0
    train = TRAIN[:n_classes] / TRAIN[:n_classes].sum()
    return y, softmax(x + np.log(train), axis=1)


Y, PROBA = draw(4000, TRAIN, 0)
Y_NEW, PROBA_NEW = draw(4000, NEW, 1)


@pytest.mark.parametrize(
    "metric", [expected_calibration_error, classwise_calibration_error]
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_is_near_the_error_with_new_labels(metric, n_classes):
    y, proba = draw(4000, TRAIN, 0, n_classes)
    y_new, proba_new = draw(4000, NEW, 1, n_classes)
    found = label_shift_calibration_error(y, proba, proba_new, metric=metric)
    assert found == pytest.approx(metric(y_new, proba_new), abs=0.03)
    assert metric(y, proba) < 0.03 < 0.05 < found


def test_is_the_error_with_importance_weights():
    old = np.bincount(Y) / len(Y)
    new, _ = estimate_priors(PROBA_NEW, old, n_resamples=1, random_state=0)
    expected = expected_calibration_error(Y, PROBA, sample_weight=(new / old)[Y])
    assert label_shift_calibration_error(Y, PROBA, PROBA_NEW) == expected


def test_without_a_shift_it_is_the_error():
    _, same = draw(4000, TRAIN, 2)
    metric = partial(expected_calibration_error, n_bins=5)
    found = label_shift_calibration_error(Y, PROBA, same, metric=metric)
    assert found == pytest.approx(metric(Y, PROBA), abs=0.01)


def test_labels_and_containers():
    expected = label_shift_calibration_error(Y, PROBA, PROBA_NEW)
    frames = [pd.DataFrame(each, columns=LABELS) for each in (PROBA, PROBA_NEW)]
    y = pd.Series(LABELS[Y])
    found = label_shift_calibration_error(y, *frames, labels=LABELS)
    assert found == pytest.approx(expected, rel=1e-12)
    priors = dict(zip(LABELS, np.bincount(Y) / len(Y), strict=True))
    found = label_shift_calibration_error(
        y, *frames, labels=LABELS, train_priors=priors
    )
    assert found == pytest.approx(expected, rel=1e-12)


def test_binary_problems():
    y, proba = draw(1000, TRAIN, 0, 2)
    _, proba_new = draw(1000, NEW, 1, 2)
    one = label_shift_calibration_error(
        y, proba[:, 1], proba_new[:, 1], metric=classwise_calibration_error
    )
    two = label_shift_calibration_error(
        y, proba, proba_new, metric=classwise_calibration_error
    )
    assert one == pytest.approx(two)


def test_weights_count_samples():
    weight = 1 + np.arange(len(Y)) % 2
    rows = np.repeat(np.arange(len(Y)), weight)
    found = label_shift_calibration_error(Y, PROBA, PROBA_NEW, sample_weight=weight)
    expected = label_shift_calibration_error(Y[rows], PROBA[rows], PROBA_NEW)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_true": Y % 2}, "y_true must contain 3 distinct labels"),
        (
            {"y_true": Y % 2, "labels": [0, 1, 2]},
            r"y_true must contain samples of all classes, .*\[2\]",
        ),
        (
            {"y_true": Y % 2, "labels": [0, 1, 2], "train_priors": TRAIN},
            r"y_true must contain samples of all classes, .*\[2\]",
        ),
        (
            {"sample_weight": Y > 0, "train_priors": TRAIN},
            r"y_true must contain samples of all classes, .*\[0\]",
        ),
        ({"y_proba_new": PROBA_NEW + 1}, r"y_proba_new must lie in \[0, 1\]"),
        (
            {"y_proba_new": PROBA_NEW[:, 0]},
            "y_proba_new must have a column .* got 2 co",
        ),
        (
            {"y_proba_new": pd.DataFrame(PROBA_NEW, columns=["2", "1", "0"])},
            "y_proba_new must have its columns in the order of the labels",
        ),
        ({"metric": "ece"}, "metric must be a function"),
        ({"train_priors": [0.5, 0.5, 0.5]}, "sum of the priors"),
    ],
)
def test_bad_input(change, message):
    arguments = {"y_true": Y, "y_proba": PROBA, "y_proba_new": PROBA_NEW, **change}
    with pytest.raises((TypeError, ValueError), match=message):
        label_shift_calibration_error(**arguments)


def test_class_of_one_column():
    y, proba = draw(400, TRAIN, 0, 2)
    _, new = draw(400, NEW, 1, 2)
    names = np.array(["leave", "stay"])[y]
    first = y == 0, proba[:, 0], new[:, 0]
    found = label_shift_calibration_error(names, *first[1:], pos_label="leave")
    # The columns 1 - p and p may differ in the last digit.
    expected = label_shift_calibration_error(*first)
    assert found == pytest.approx(expected, rel=1e-12)
    of_first = {"metric": partial(brier_score_loss, pos_label="leave")}
    of_first["train_priors"] = {"leave": 0.7, "stay": 0.3}
    found = label_shift_calibration_error(names, *first[1:], **of_first)
    options = {"metric": brier_score_loss, "train_priors": [0.3, 0.7]}
    expected = label_shift_calibration_error(*first, **options)
    assert found == pytest.approx(expected, rel=1e-12)  # new priors are of 1 - p
    with pytest.warns(UserWarning, match="The class is taken to be 'stay'") as told:
        found = label_shift_calibration_error(names, proba[:, 1], new[:, 1])
    assert len(told) == 1
    assert found == label_shift_calibration_error(y, proba[:, 1], new[:, 1])
