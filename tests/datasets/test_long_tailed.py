"""Long-tailed data sets and merged classes."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy.sparse import csr_array

from sklearn_calib.datasets import group_classes, make_long_tailed


def balanced(n_classes, n_per_class):
    y = np.arange(n_classes * n_per_class) % n_classes
    return np.arange(len(y))[:, None], y


@pytest.mark.parametrize(
    ("imbalance_factor", "expected"),
    [
        # The sizes of CIFAR-10-LT, from the formula of Cao et al. 2019.
        (0.1, [5000, 3871, 2997, 2320, 1796, 1391, 1077, 834, 645, 500]),
        (0.01, [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]),
        (1.0, [5000] * 10),
    ],
)
def test_exponential_sizes(imbalance_factor, expected):
    _, y = make_long_tailed(*balanced(10, 5000), imbalance_factor=imbalance_factor)
    np.testing.assert_array_equal(np.bincount(y), expected)


def test_pareto_is_nearly_imagenet_lt():
    """ImageNet-LT has 115846 images, with 5 to 1280 images in a class."""
    X, y = balanced(1000, 1280)
    _, y = make_long_tailed(X, y, imbalance_factor=5 / 1280, profile="pareto")
    sizes = np.bincount(y)
    assert sizes[0] == 1280
    assert sizes[-1] == 5
    assert (np.diff(sizes) <= 0).all()
    assert sizes.sum() == pytest.approx(115846, rel=0.011)


@given(
    st.lists(st.integers(20, 60), min_size=2, max_size=6),
    st.sampled_from(["exponential", "pareto"]),
    st.floats(0.06, 1),
)
def test_sizes_of_unequal_classes(counts, profile, imbalance_factor):
    """At least one class keeps all samples."""
    y = np.repeat(np.arange(len(counts)), counts)
    X = np.arange(len(y))
    options = {"imbalance_factor": imbalance_factor, "profile": profile}
    kept, y_kept = make_long_tailed(X, y, random_state=0, **options)
    sizes = np.bincount(y_kept)
    assert (np.diff(sizes) <= 0).all()
    assert sizes[-1] / sizes[0] == pytest.approx(imbalance_factor, abs=1 / sizes[0])
    assert (sizes == counts).any()
    assert (np.diff(kept) > 0).all()
    np.testing.assert_array_equal(y[kept], y_kept)


def test_order_of_the_classes():
    X, y = balanced(3, 100)
    names = np.array(["oak", "elm", "ash"])[y]
    _, by_name = make_long_tailed(X, names, imbalance_factor=0.1)
    assert pd.Series(by_name).value_counts().to_dict() == {
        "ash": 100, "elm": 31, "oak": 10,
    }  # fmt: skip
    order = ["elm", "oak", "ash"]
    _, ordered = make_long_tailed(X, names, imbalance_factor=0.1, class_order=order)
    assert pd.Series(ordered).value_counts().to_dict() == {
        "elm": 100, "oak": 31, "ash": 10,
    }  # fmt: skip


def test_random_state():
    def draw(seed):
        return make_long_tailed(
            *balanced(3, 50), imbalance_factor=0.5, random_state=seed
        )[0]

    np.testing.assert_array_equal(draw(0), draw(0))
    assert not np.array_equal(draw(0), draw(1))


def test_containers():
    X, y = balanced(2, 20)
    options = {"imbalance_factor": 0.5, "random_state": 0}
    rows, labels = make_long_tailed(X, y, **options)
    frame, series = make_long_tailed(
        pd.DataFrame(X, index=X[:, 0] + 7), pd.Series(y, index=X[:, 0] + 7), **options
    )
    np.testing.assert_array_equal(frame.index, rows[:, 0] + 7)
    np.testing.assert_array_equal(series.index, frame.index)
    sparse, _ = make_long_tailed(csr_array(X), y.tolist(), **options)
    np.testing.assert_array_equal(sparse.toarray(), rows)
    listed, _ = make_long_tailed(X.tolist(), y, **options)
    np.testing.assert_array_equal(listed, rows)
    images, _ = make_long_tailed(np.tile(X[:, :, None], (1, 3, 3)), y, **options)
    assert images.shape == (len(labels), 3, 3)


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        ([0, 1] * 5, {"imbalance_factor": 10}, "'imbalance_factor' parameter"),
        ([0, 1] * 5, {"imbalance_factor": 0.19}, "one sample.*got 0.19.*at least 0.2"),
        ([1] * 10, {"imbalance_factor": 0.5}, r"at least 2 classes, got \[1\]"),
        (
            [0, 1] * 5,
            {"imbalance_factor": 0.5, "class_order": [0, 2]},
            r"class_order must contain each label of y once, got \[0, 2\]",
        ),
        ([0, 1], {"imbalance_factor": 0.5}, "inconsistent numbers of samples"),
        ([0, 1] * 5, {"imbalance_factor": 0.5, "profile": "step"}, "'profile'"),
    ],
)
def test_bad_input(y, options, message):
    with pytest.raises(ValueError, match=message):
        make_long_tailed(np.zeros((10, 1)), y, **options)


@pytest.mark.parametrize("n_classes", [2, 5, 10])
def test_halves(n_classes):
    """For an odd number of classes, the middle one is positive, as in the paper."""
    y = np.random.default_rng(0).integers(n_classes, size=50)
    np.testing.assert_array_equal(group_classes(y), y >= n_classes // 2)


def test_random_halves():
    y = np.arange(100) % 10
    group = group_classes(y, "random", random_state=0)
    members = [{*y[group == side]} for side in (0, 1)]
    assert [len(one) for one in members] == [5, 5]
    assert members[0] != set(range(5))
    assert members[0].isdisjoint(members[1])
    again = group_classes(y, "random", random_state=0)
    np.testing.assert_array_equal(group, again)


def test_named_groups():
    groups = {"animal": ["cat", "dog"], "vehicle": "ship"}
    group = group_classes(["dog", "ship", "cat"], groups)
    assert group.tolist() == ["animal", "vehicle", "animal"]


@pytest.mark.parametrize("groups", [{0: [0], 1: [1]}, {0: [0, 1], 1: [1, 2]}, {}])
def test_bad_groups(groups):
    with pytest.raises(
        ValueError, match=r"groups must contain each label .* one group"
    ):
        group_classes([0, 1, 2], groups)


@pytest.mark.parametrize("function", [group_classes, make_long_tailed])
@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        ([[0, 1], [1]], ValueError, "y must have rows of equal length"),
        ([[0, 1], [1, 0]], ValueError, "y should be a 1d array, got an array"),
        ([0, None], TypeError, "y must contain labels of one type"),
        ([0, "a"], TypeError, "y must contain labels of one type"),
        ([0.0, np.nan], ValueError, "y must not contain missing values"),
        (np.ma.masked_array([0, 1], [0, 1]), ValueError, "y must not contain masked"),
    ],
)
def test_bad_labels(function, y, error, message):
    options = {"X": [[0], [1]], "imbalance_factor": 1.0}
    with pytest.raises(error, match=message):
        function(y=y, **(options if function is make_long_tailed else {}))
