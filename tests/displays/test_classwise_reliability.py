"""A panel for each class: each shows its class, and all can be read."""

import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB

from sklearn_calib.displays import ClasswiseReliabilityDisplay, ReliabilityDisplay
from sklearn_calib.metrics import (
    classwise_calibration_error,
    expected_calibration_error,
)

RNG = np.random.default_rng(0)


def predictions(n_classes, n_samples=200):
    """Return probabilities, and labels drawn from them that contain all classes."""
    y_proba = RNG.dirichlet(np.ones(n_classes), n_samples)
    y_true = (RNG.random((n_samples, 1)) > y_proba.cumsum(axis=1)).sum(axis=1)
    y_true[:n_classes] = np.arange(n_classes)
    return np.minimum(y_true, n_classes - 1), y_proba


def draw(y_true, y_proba, **options):
    return ClasswiseReliabilityDisplay.from_predictions(y_true, y_proba, **options)


def titles(display):
    return [ax.get_title() for ax in display.axes_]


def test_each_panel_shows_its_class(without_drawing):
    y_true, y_proba = predictions(3)
    display = draw(y_true, y_proba, n_bins=4)
    for code, one in enumerate(display.displays):
        with without_drawing():
            alone = ReliabilityDisplay.from_predictions(
                y_true == code, y_proba[:, code], n_bins=4
            )
        assert_allclose(one.prob_true, alone.prob_true)
        assert_allclose(one.band, alone.band)
        assert one.ax_ is display.axes_[code]
        assert titles(display)[code] == f"{code}\nECE {alone.ece:.3f}"
    errors = [one.ece for one in display.displays]
    expected = classwise_calibration_error(y_true, y_proba, n_bins=4)
    assert np.mean(errors) == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bins", "smooth", "corp"])
@pytest.mark.parametrize("n_classes", [2, 3, 5, 10, 12])
def test_panels_are_equal_and_nothing_overlaps(kind, n_classes):
    options = {} if kind == "bins" else {"interval": None}
    display = draw(*predictions(n_classes), kind=kind, name="a classifier", **options)
    figure = display.figure_
    figure.draw_without_rendering()
    sizes = [ax.get_position().size for ax in display.axes_]
    assert_allclose(sizes, np.tile(sizes[0], (n_classes, 1)))
    assert {ax.get_xlim() for ax in figure.axes} == {(0.0, 1.0)}
    tops = {one.histogram_ax_.get_ylim()[1] for one in display.displays}
    assert len(tops) == 1
    boxes = [ax.get_tightbbox() for ax in figure.axes]
    for index, box in enumerate(boxes):
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
        # Tick labels at the corners may touch by a pixel or two, and what is drawn at
        # the ends of the panels sticks out of them.
        others = (other.padded(-4) for other in boxes[index + 1 :])
        assert not any(box.padded(-4).overlaps(other) for other in others)


def test_legend_stands_once():
    display = draw(*predictions(2), name="a guess")
    legends = [ax.get_legend() for ax in display.figure_.axes]
    (legend,) = [legend for legend in legends if legend]
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == ["a guess", "Gap", "95 % interval"]


@pytest.mark.parametrize("kind", ["bins", "smooth", "corp"])
def test_two_classifiers(kind):
    data = load_iris(return_X_y=True)
    options = {"kind": kind, "classes": [1, 2], "random_state": 0, "n_resamples": 5}
    first, second = GaussianNB().fit(*data), LogisticRegression(C=1e-4).fit(*data)
    display = ClasswiseReliabilityDisplay.from_estimator(first, *data, **options)
    before = titles(display)
    other = ClasswiseReliabilityDisplay.from_estimator(
        second, *data, ax=display.axes_, **options
    )
    for old, new in zip(before, titles(other), strict=True):
        assert new.startswith(old + ", 0.")
    (legend,) = [ax.get_legend() for ax in other.figure_.axes if ax.get_legend()]
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == ["GaussianNB", "LogisticRegression"]


def test_two_kinds():
    """Errors with different names are labelled."""
    y_true, y_proba = predictions(2, n_samples=60)
    ax = draw(y_true, y_proba).axes_
    corp = draw(y_true, y_proba, kind="corp", ax=ax, n_resamples=5)
    for title in titles(corp):
        assert re.fullmatch(r"\d\nECE 0.\d+, MCB 0.\d+", title)


def test_binary():
    y_proba = RNG.random(50)
    display = draw(["no", "yes"] * 25, y_proba, labels=["no", "yes"])
    assert [title.splitlines()[0] for title in titles(display)] == ["no", "yes"]
    no, yes = display.displays
    assert_allclose(no.prob_true[::-1], 1 - yes.prob_true)


@pytest.mark.usefixtures("undrawn")
def test_absent_class_has_a_frequency_of_zero():
    y_true, y_proba = predictions(3)
    display = draw(np.where(y_true == 2, 1, y_true), y_proba, labels=[0, 1, 2])
    values = display.displays[2].prob_true
    assert (values[~np.isnan(values)] == 0).all()


@pytest.mark.usefixtures("undrawn")
def test_few_samples_with_confidence_one_and_weights():
    display = draw([0, 1, 2], np.eye(3), sample_weight=[1, 2, 0.5])
    assert [one.counts.sum() for one in display.displays] == [3.5] * 3


def test_some_of_many_classes():
    y_true, y_proba = predictions(20)
    display = draw(y_true, y_proba, classes=[7, 3])
    assert [title.splitlines()[0] for title in titles(display)] == ["7", "3"]
    with pytest.raises(ValueError, match=r"classes must contain at least one .*none"):
        draw(y_true, y_proba, classes=[])
    with pytest.raises(
        ValueError, match=r"classes must contain labels of columns.*got"
    ):
        draw(y_true, y_proba, classes=[7, 20])
    with pytest.raises(ValueError, match=r"classes should be a 1d array .* got dict"):
        draw(y_true, y_proba, classes={})
    with pytest.raises(
        ValueError, match=r"classes must contain labels of columns.*\[\[7"
    ):
        draw(y_true, y_proba, classes=[[7], [3]])


def test_worst_of_many_classes(without_drawing):
    """Twelve by default, and as many as are asked for."""
    y_true, y_proba = predictions(20, n_samples=400)
    labels = np.array([f"class {code}" for code in range(20)])
    options = {"labels": labels, "interval": None}
    with without_drawing():
        first = draw(labels[y_true], y_proba, **options)
        many = draw(y_true, y_proba, classes=np.arange(13))
    errors = [
        expected_calibration_error(y_true == code, y_proba[:, code])
        for code in range(20)
    ]
    worst = np.argsort(errors)[::-1][:12]
    assert_array_equal(first.classes, labels[worst])
    assert_allclose([one.ece for one in first.displays], np.array(errors)[worst])
    assert many.classes.tolist() == [*range(13)]
    assert len(many.displays) == 13

    # The worst classes of another classifier are other ones.
    other = y_proba[:, ::-1]
    options["kind"] = "corp"
    axes = draw(labels[y_true], y_proba, **options).axes_
    assert len(axes) == 12
    with pytest.raises(ValueError, match=r"ax must show the same classes.*Pass class"):
        draw(labels[y_true], other, ax=axes, **options)
    with pytest.raises(ValueError, match=r"ax must show the same classes"):
        draw(*predictions(12), ax=axes)
    draw(labels[y_true], other, ax=axes, classes=first.classes, **options)


def test_logarithmic_histograms_have_one_scale():
    display = draw(*predictions(3), classes=[0, 1], histogram="log", n_bins=3)
    below = [one.histogram_ax_ for one in display.displays]
    assert {ax.get_yscale() for ax in below} == {"log"}
    assert len({ax.get_ylim() for ax in below}) == 1
    minor = [text.get_text() for ax in below for text in ax.get_yticklabels(minor=True)]
    assert set(minor) <= {""}
    again = ClasswiseReliabilityDisplay(display.displays, display.classes)
    assert again.plot(histogram="log").displays[0].histogram_ax_.get_yscale() == "log"


def test_scale_of_the_histograms_adapts_to_a_second_classifier():
    y_true, y_proba = predictions(3)
    first = draw(y_true, y_proba, classes=[0, 1], n_bins=3)
    certain = np.eye(3)[y_true]
    second = draw(y_true, certain, classes=[0, 1], n_bins=3, ax=first.axes_)
    tops = [one.histogram_ax_.get_ylim()[1] for one in second.displays]
    highest = max(one.histogram.max() for one in first.displays + second.displays)
    assert tops[0] == tops[1] > highest


def test_titles_of_many_classifiers_are_the_classes():
    """The errors of four classifiers would be wider than the panel."""
    y_true, y_proba = predictions(2)
    ax = None
    for n_classifiers in (1, 2, 3, 4, 5):
        display = draw(y_true, y_proba, name="a name", ax=ax, n_bins=3)
        ax = display.axes_
        n_errors = titles(display)[1].count("0.")
        assert n_errors == (n_classifiers if n_classifiers < 4 else 0)
        assert titles(display)[1].splitlines()[0] == "1"


def test_plot_again_on_axes_of_the_user():
    display = draw(*predictions(2), name="first", n_bins=3)
    panels = display.figure_.axes
    _, axes = plt.subplots(1, 2, figsize=(15, 4))
    assert list(display.plot(axes, name="again").axes_) == list(axes)
    for ax in panels + display.figure_.axes:
        assert ax.get_xticks().tolist() == [0, 0.5, 1]
    with pytest.raises(ValueError, match=r"ax must contain one axes.*2 classes, got 1"):
        display.plot(axes[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "kernel"}, "'kind' parameter"),
        ({"n_bins": 0}, "'n_bins' parameter"),
        (
            {"histogram": False},
            r"options must not contain .* got \['histogram'\]. Leave them",
        ),
        ({"classes": [0, 0]}, r"classes must contain each label .* \[0, 0\]\. Remove"),
        ({"mode": "top_label", "pos_label": 0}, r"got \['mode', 'pos_label'\]"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        draw(*predictions(3), **options)


def indicators(n_labels):
    """Return an indicator matrix, and probabilities whose rows do not sum to one."""
    y_proba = RNG.uniform(size=(100, n_labels))
    return (RNG.random(y_proba.shape) < y_proba**2).astype(int), y_proba


def test_several_labels(without_drawing):
    """Each panel is the diagram of a label alone."""
    y_true, y_proba = indicators(3)
    names = ["beach", "sea", "tree"]
    weight = np.arange(100) % 3
    options = {"n_bins": 4, "sample_weight": weight}
    display = draw(pd.DataFrame(y_true, columns=names), y_proba, **options)
    assert display.classes.tolist() == names
    for code, one in enumerate(display.displays):
        with without_drawing():
            alone = ReliabilityDisplay.from_predictions(
                y_true[:, code], y_proba[:, code], **options
            )
        assert_allclose(one.prob_true, alone.prob_true)
        assert_allclose(one.counts, alone.counts)
        assert titles(display)[code] == f"{names[code]}\nECE {alone.ece:.3f}"
    pairs = [np.column_stack([1 - p, p]) for p in y_proba.T]
    some = draw(y_true, pairs, labels=names, classes=["tree", "beach"], **options)
    assert_array_equal(some.displays[0].prob_true, display.displays[2].prob_true)
    assert set(some.frame()["class"]) == {"tree", "beach"}


def test_worst_of_many_labels(without_drawing):
    y_true, y_proba = indicators(14)
    weight = np.arange(100) % 3
    with without_drawing():
        display = draw(y_true, y_proba, interval=None, sample_weight=weight)
    errors = [
        expected_calibration_error(y, p, sample_weight=weight)
        for y, p in zip(y_true.T, y_proba.T, strict=True)
    ]
    assert_array_equal(display.classes, np.argsort(errors)[:1:-1])


@pytest.mark.parametrize("kind", [MultiOutputClassifier, OneVsRestClassifier])
def test_classifiers_of_several_labels(kind):
    """They return a list of arrays, or one array whose rows do not sum to one."""
    X = RNG.normal(size=(100, 3))
    y = pd.DataFrame(X + RNG.normal(size=X.shape) > 0, columns=[*"abc"]).astype(int)
    model = kind(GaussianNB()).fit(X, y)
    display = ClasswiseReliabilityDisplay.from_estimator(model, X, y, n_bins=3)
    assert display.classes.tolist() == [*"abc"]
    for code, one in enumerate(display.displays):
        proba = GaussianNB().fit(X, y.iloc[:, code]).predict_proba(X)[:, 1]
        error = expected_calibration_error(y.iloc[:, code], proba, n_bins=3)
        assert one.ece == pytest.approx(error)
    with pytest.raises(ValueError, match=r"one label|multilabel"):
        ReliabilityDisplay.from_estimator(model, X, y)
