"""`PredictionSetDisplay`: the numbers drawn, estimators, and input."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.naive_bayes import GaussianNB

from sklearn_calib import PredictionSetClassifier
from sklearn_calib.displays import PredictionSetDisplay
from sklearn_calib.metrics import (
    class_coverage_error,
    mean_set_size_loss,
    set_coverage_score,
)

LABELS = np.array(["rose", "iris", "aster"])
RNG = np.random.default_rng(0)
CODES = RNG.integers(3, size=200)
X, Y = 2 * np.eye(3)[CODES] + RNG.normal(size=(200, 3)), LABELS[CODES]
draw = PredictionSetDisplay.from_predictions


@pytest.fixture(scope="module")
def model():
    return PredictionSetClassifier(GaussianNB(), cv=2).fit(X[::2], Y[::2])


def assert_same(display, other):
    for name in ("confidence_level", "coverage", "size", "class_error"):
        assert_allclose(getattr(display, name), getattr(other, name), rtol=1e-12)


def test_points_are_those_of_the_metrics(model):
    display = PredictionSetDisplay.from_estimator(model, X[1::2], Y[1::2])
    for row in display.frame().itertuples():
        sets = model.set_params(confidence_level=row.confidence_level)
        given = Y[1::2], sets.predict_set(X[1::2])
        options = {"labels": model.classes_}
        assert row.coverage == pytest.approx(set_coverage_score(*given, **options))
        assert row.size == pytest.approx(mean_set_size_loss(*given, **options))
    assert display.confidence_level[[0, -1]].tolist() == [0.5, 0.99]
    assert_array_equal(display.line_.get_data(), [display.size, display.coverage])
    marked = display.level_line_.get_ydata()
    assert marked.tolist() == [0.8, 0.9, 0.95]
    assert_allclose(display.size[[30, 40, 45]], display.level_line_.get_xdata())
    size = f"{display.size[40]:.2f}"
    sets = model.set_params(confidence_level=0.9).predict_set(X[1::2])
    gap = class_coverage_error(Y[1::2], sets, labels=model.classes_)
    assert gap > 0.005
    expected = (
        f"PredictionSetClassifier (mean size {size}, CovGap {gap:.2f} at level 0.9)"
    )
    assert display.line_.get_label() == expected


@pytest.mark.usefixtures("undrawn")
def test_from_estimator_is_from_predictions(model):
    weight = np.arange(200) % 3
    one = PredictionSetDisplay.from_estimator(model, X, Y, sample_weight=weight)
    pvalue = model.predict_pvalue(X)
    options = {"labels": model.classes_}
    assert_same(one, draw(Y, pvalue, sample_weight=weight, **options))
    assert_same(one, draw(Y.repeat(weight), pvalue.repeat(weight, axis=0), **options))
    frame = pd.DataFrame(pvalue, columns=model.classes_)
    assert_same(one, draw(Y.tolist(), frame, sample_weight=weight))
    order = [2, 0, 1]
    options = {"labels": model.classes_[order], "sample_weight": weight}
    assert_same(one, draw(Y, pvalue[:, order], **options))


def test_a_pvalue_of_exactly_1_minus_the_level_is_outside():
    display = draw([0, 1], [[0.1, 0.2], [0.5, 0.1]])
    assert_array_equal(display.size[display.confidence_level == 0.9], 1)


def test_classifiers_without_sets(model):
    message = r"classifier with predict_pvalue, got GaussianNB.*PredictionSetClassif"
    with pytest.raises(TypeError, match=message):
        PredictionSetDisplay.from_estimator(GaussianNB().fit(X, Y), X, Y)
    with pytest.raises(TypeError, match="labels must not be passed"):
        PredictionSetDisplay.from_estimator(model, X, Y, labels=LABELS)


@pytest.mark.parametrize(
    ("y_true", "y_pvalue", "message"),
    [
        (CODES, X, r"y_pvalue must .* in \[0, 1\], in the shape \(n_samples, n_cla"),
        (CODES, X[:, 0], r"y_pvalue must .* got an array of shape \(200,\)"),
        (CODES, np.full((200, 3), np.nan), "y_pvalue must"),
        (CODES[:0], X[:0], r"y_pvalue must .* got an array of shape \(0, 3\)"),
        (CODES[:9], np.ones((200, 3)), "y_true must .* got 9 labels and 200 rows"),
        (CODES, np.ones((200, 4)), "y_true must contain 4 distinct labels"),
        (
            Y,
            pd.DataFrame(np.ones((200, 3)), columns=LABELS),
            "y_pvalue must have its columns in the order of the labels",
        ),
    ],
)
def test_bad_input(y_true, y_pvalue, message):
    with pytest.raises(ValueError, match=message):
        draw(y_true, y_pvalue)
    assert not plt.get_fignums()
