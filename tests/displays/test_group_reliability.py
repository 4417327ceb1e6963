"""A panel for each group of samples, with its size and the interval of its error."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression

from sklearn_calib.displays import GroupReliabilityDisplay, ReliabilityDisplay
from sklearn_calib.metrics import (
    ece_interval,
    expected_calibration_error,
    per_group,
)

RNG = np.random.default_rng(0)
N_SAMPLES = 1500
GROUPS = np.array(["north", "south", "west"])[
    RNG.choice(3, size=N_SAMPLES, p=[0.2, 0.75, 0.05])
]
HALVES = np.where(GROUPS == "north", "north", "south")
PROBA = RNG.uniform(size=N_SAMPLES)
Y = np.where(RNG.random(N_SAMPLES) < PROBA ** (1 + (GROUPS == "north")), "yes", "no")
FAST = {"n_resamples": 20, "random_state": 0}
ONE_GROUP = np.full(N_SAMPLES, "all")
FEW = Y[:300], PROBA[:300], ONE_GROUP[:300]


def draw(y_true=Y, y_proba=PROBA, groups=GROUPS, **options):
    options = {**FAST, "labels": ["no", "yes"], **options}
    return GroupReliabilityDisplay.from_predictions(
        y_true, y_proba, groups=groups, **options
    )


def titles(display):
    return [ax.get_title().splitlines() for ax in display.axes_]


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("two_columns", [False, True])
def test_each_panel_shows_its_group(is_weighted, two_columns, without_drawing):
    plt.close("all")
    weight = 1.0 + np.arange(N_SAMPLES) % 3 if is_weighted else None
    proba = np.column_stack([1 - PROBA, PROBA]) if two_columns else PROBA
    options = {"n_bins": 4, "strategy": "quantile", "confidence_level": 0.8}
    display = draw(y_proba=proba, groups=HALVES, sample_weight=weight, **options)
    assert display.groups.tolist() == ["north", "south", "overall"]
    for index, name in enumerate(display.groups):
        rows = slice(None) if name == "overall" else name == HALVES
        data = {"labels": ["no", "yes"], **FAST, **options}
        data["sample_weight"] = weight[rows] if is_weighted else None
        one = display.displays[index]
        with without_drawing():
            alone = ReliabilityDisplay.from_predictions(Y[rows], proba[rows], **data)
        for attribute in ("prob_true", "prob_pred", "band", "counts", "histogram"):
            assert_allclose(getattr(one, attribute), getattr(alone, attribute))
        assert one.mode == alone.mode
        assert one.ax_ is display.axes_[index]
        low, high = ece_interval(Y[rows], proba[rows], **data)
        assert_allclose(display.error_intervals[index], (low, high))
        n_samples = len(Y[rows])
        assert titles(display)[index] == [
            name,
            f"{n_samples:,} samples",
            f"ECE {alone.ece:.3f} [{low:.3f}, {high:.3f}]",
        ]


@pytest.mark.usefixtures("undrawn")
def test_errors_are_those_of_the_table():
    table = per_group(expected_calibration_error, Y == "yes", PROBA, groups=GROUPS)
    display = draw(n_resamples=200)
    assert_allclose([one.ece for one in display.displays], table["value"])
    assert_array_equal(display.n_samples, table["n_samples"])
    # Group "north" is miscalibrated.
    low = dict(zip(display.groups, display.error_intervals[:, 0], strict=True))
    assert low["north"] > 0.01 > low["south"] == low["west"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bins", "smooth", "corp"])
@pytest.mark.parametrize("n_groups", [1, 2, 3, 5, 12])
def test_panels_are_equal_and_nothing_overlaps(kind, n_groups):
    groups = np.arange(N_SAMPLES) % n_groups
    display = draw(groups=groups, kind=kind, name="a classifier")
    figure = display.figure_
    figure.draw_without_rendering()
    sizes = [ax.get_position().size for ax in display.axes_]
    assert_allclose(sizes, np.tile(sizes[0], (n_groups + 1, 1)))
    assert {ax.get_xlim() for ax in figure.axes} == {(0.0, 1.0)}
    boxes = [ax.get_tightbbox() for ax in figure.axes]
    for index, box in enumerate(boxes):
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
        # Tick labels at the corners may touch by a pixel or two.
        others = (other.padded(-4) for other in boxes[index + 1 :])
        assert not any(box.padded(-4).overlaps(other) for other in others)


def test_kinds_without_bins_have_no_interval():
    for kind, word in (("smooth", "smECE"), ("corp", "MCB")):
        display = draw(*FEW, kind=kind)
        assert display.error_intervals is None
        for _, _, error in titles(display):
            assert error.startswith(f"{word} 0.")
            assert "[" not in error


def test_histograms_have_their_own_scales():
    display = draw(groups=HALVES, n_bins=4)
    below = [one.histogram_ax_ for one in display.displays]
    for ax, one in zip(below, display.displays, strict=True):
        top = one.histogram.max()
        assert top <= ax.get_ylim()[1] < 1.2 * top
        assert not any(label.get_visible() for label in ax.get_yticklabels())


@pytest.mark.parametrize("mode", ["top_label", "positive"])
def test_axis_labels(mode):
    proba = np.column_stack([1 - PROBA, PROBA])
    display = draw(y_proba=proba, groups=ONE_GROUP, mode=mode, n_bins=4)
    x_label = display.displays[0].histogram_ax_.get_xlabel()
    labels = {"top_label": ("Confidence", "Accuracy")}
    expected = labels.get(mode, ("Probability of class yes", "Frequency"))
    assert (x_label, display.axes_[0].get_ylabel()) == expected


@pytest.mark.usefixtures("undrawn")
def test_the_other_label_is_positive():
    display = draw(pos_label="no", y_proba=1 - PROBA)
    for one, other in zip(display.displays, draw().displays, strict=True):
        assert_allclose(one.prob_true[::-1], 1 - other.prob_true)


def test_two_classifiers():
    """The title has both errors, without intervals."""
    options = {"groups": HALVES, "n_bins": 4}
    first = draw(name="first", **options)
    second = draw(y_proba=PROBA**2, ax=first.axes_, name="second", **options)
    errors = zip(first.displays, second.displays, strict=True)
    for (_, _, text), (one, other) in zip(titles(second), errors, strict=True):
        assert text == f"ECE {one.ece:.3f}, {other.ece:.3f}"
    with pytest.raises(ValueError, match=r"ax must show the same groups.*Pass axes"):
        draw(groups=np.where(HALVES == "south", "east", HALVES), ax=first.axes_)
    with pytest.raises(ValueError, match=r"ax must contain one axes.*4 groups, got 3"):
        draw(groups=GROUPS, ax=first.axes_)


@pytest.mark.usefixtures("undrawn")
def test_combinations_of_columns():
    old = RNG.random(N_SAMPLES) < 0.5
    display = draw(groups=pd.DataFrame({"place": GROUPS, "old": old}))
    assert display.groups[0] == "north, False"
    assert display.n_samples[0] == ((GROUPS == "north") & ~old).sum()
    assert len(display.groups) == 7


@pytest.mark.usefixtures("undrawn")
def test_frame():
    display = draw()
    table = display.frame()
    assert list(table["group"].unique()) == [*display.groups]
    for name, one in zip(display.groups, display.displays, strict=True):
        part = table[table["group"] == name].drop(columns="group")
        pd.testing.assert_frame_equal(part.reset_index(drop=True), one.frame())


@pytest.mark.usefixtures("undrawn")
def test_largest_of_many_groups():
    """Twelve and all samples, in the order of their names."""
    groups = np.minimum(RNG.geometric(0.15, size=N_SAMPLES), 20)
    names, counts = np.unique(groups, return_counts=True)
    largest = names[np.argsort(-counts, kind="stable")[:12]]
    display = draw(groups=groups)
    assert display.groups.tolist() == [*sorted(largest.tolist()), "overall"]


def test_weight_of_zero_and_missing_values():
    groups = pd.Series(GROUPS).replace({"north": None})
    weight = (GROUPS != "west").astype(float)
    display = draw(groups=groups, sample_weight=weight, n_bins=4)
    n_samples = [(GROUPS == "south").sum(), (GROUPS == "north").sum()]
    assert display.n_samples.tolist() == [*n_samples, sum(n_samples)]
    assert titles(display)[1][0] in ("nan", "None")


@pytest.mark.usefixtures("undrawn")
def test_group_of_one_sample_and_one_class():
    groups = np.where(np.arange(N_SAMPLES) == 0, "one", "rest")
    display = draw(groups=groups, y_proba=PROBA.astype(np.float32))
    assert display.n_samples.tolist() == [1, N_SAMPLES - 1, N_SAMPLES]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("container", [np.asarray, pd.DataFrame])
def test_groups_from_columns(container):
    """By name or index, or as an array."""
    X = np.column_stack([PROBA, GROUPS == "north"]).astype(float)
    X = container(X)
    name = 1
    if isinstance(X, pd.DataFrame):
        X.columns, name = ["score", "is_north"], "is_north"
    classifier = LogisticRegression().fit(X, Y)
    from_estimator = GroupReliabilityDisplay.from_estimator
    column = np.asarray(X)[:, 1]
    displays = [
        from_estimator(classifier, X, Y, groups=groups, **FAST)
        for groups in (column, name, -1)
    ]
    for display in displays:
        assert display.groups.tolist() == [0, 1, "overall"]
        assert display.name == "LogisticRegression"
        assert_array_equal(display.error_intervals, displays[0].error_intervals)
    with pytest.raises(ValueError, match="groups must be columns of X, got 'age'"):
        from_estimator(classifier, X, Y, groups="age")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": None}, "'groups' parameter"),
        ({"groups": GROUPS[1:]}, "groups must contain one group for each sample"),
        ({"kind": "kernel"}, "'kind' parameter"),
        ({"n_bins": 0}, "'n_bins' parameter"),
        ({"confidence_level": 2}, "'confidence_level' parameter"),
        ({"histogram": False}, r"options must not contain .* got \['histogram'\]"),
        ({"mode": "classwise"}, "'mode' parameter"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        draw(**options)
