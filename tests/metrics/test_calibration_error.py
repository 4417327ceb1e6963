"""Values of calibration errors, from other implementations and by hand."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import softmax

from sklearn_calib.metrics import (
    classwise_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
)


def cases(recorded):
    """Yield the value, the input and the options of each recorded case."""
    for case in recorded["expected"]:
        inputs = recorded["inputs"][case["input"]]
        proba, labels = np.array(inputs["probs"]), np.array(inputs["labels"])
        options = {"n_bins": case["params"]["n_bins"], "labels": range(proba.shape[1])}
        yield case, (labels, proba), options


def test_equal_width(reference):
    """All recorded implementations whose bins are closed on the right agree."""
    for case, data, options in cases(reference("metric_ece_equal_width")):
        mode = "positive" if "positive" in case["id"] else None
        norm = case["params"]["norm"]
        value = expected_calibration_error(*data, norm=norm, mode=mode, **options)
        assert value == pytest.approx(case["values"]["ece"], rel=1e-12), case["id"]


def test_equal_mass(reference):
    """Without ties, bins of equal mass agree with those of other implementations."""
    for case, data, options in cases(reference("metric_ece_equal_mass")):
        options |= {"strategy": "quantile", "norm": case["params"]["norm"]}
        value = expected_calibration_error(*data, **options)
        assert value == pytest.approx(case["values"]["ece"], rel=1e-12), case["id"]


def test_maximum_and_l2(reference):
    for case, data, options in cases(reference("metric_mce_ace")):
        ours = {
            "mce": maximum_calibration_error,
            "l2": lambda *data, **o: expected_calibration_error(*data, norm="l2", **o),
        }
        for name, expected in case["values"].items():
            value = ours[name](*data, **options)
            assert value == pytest.approx(expected, rel=1e-12), case["id"]


def test_classwise(reference):
    for case, data, options in cases(reference("metric_classwise")):
        (expected,) = case["values"].values()
        options["norm"] = case["params"].get("norm", "l1")
        value = classwise_calibration_error(*data, **options)
        assert value == pytest.approx(expected, rel=1e-12), case["id"]
        mode = expected_calibration_error(*data, mode="classwise", **options)
        assert mode == value


def loop_errors(y_true, proba, order, n_bins):
    """Return sum_c E |gap|^order by plain loops over classes, bins and samples."""
    total = 0
    for code, column in enumerate(proba.T):
        for low in range(n_bins):
            of_bin = [
                (p, y == code)
                for p, y in zip(column, y_true, strict=True)
                if low < p * n_bins <= low + 1 or (low == 0 and p == 0)
            ]
            if of_bin:
                gap = sum(p - is_class for p, is_class in of_bin) / len(of_bin)
                total += len(of_bin) / len(y_true) * abs(gap) ** order
    return total


@pytest.mark.parametrize("order", [1, 1.5, 2, 7])
def test_orders(order):
    """The mean over classes is within the root, in eq. 10 of Zhou et al. outside."""
    rng = np.random.default_rng(0)
    proba, y_true = rng.dirichlet(np.ones(4), size=60), rng.integers(0, 4, size=60)
    total = loop_errors(y_true, proba, order, n_bins=7)
    options = {"norm": order, "n_bins": 7}
    value = classwise_calibration_error(y_true, proba, **options)
    assert value == pytest.approx((total / 4) ** (1 / order), rel=1e-12)
    value = classwise_calibration_error(y_true, proba, average="sum", **options)
    assert value / 4 == pytest.approx(total ** (1 / order) / 4, rel=1e-12)
    total = loop_errors(np.where(y_true == 3, 0, 1), proba[:, [3]], order, n_bins=7)
    value = expected_calibration_error(y_true == 3, proba[:, 3], **options)
    assert value == pytest.approx(total ** (1 / order), rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_given_edges(dtype):
    """Plain loops over uneven bins, with values on the edges and next to them."""
    rng = np.random.default_rng(0)
    edges = np.array([0, 0.05, 0.2, 0.25, 0.8, 1])
    y_true, proba = rng.integers(2, size=90), rng.uniform(size=90).astype(dtype)
    proba[:6] = edges
    proba[6:12] = np.nextafter(proba[:6], dtype(1))
    gaps = []
    for low, high in pairwise(edges.astype(dtype)):
        of_bin = [
            p - y
            for p, y in zip(proba.tolist(), y_true.tolist(), strict=True)
            if low < p <= high or (low == 0 and p == 0)
        ]
        gaps.append((abs(math.fsum(of_bin)), len(of_bin)))
    options = {"n_bins": edges}
    ece = sum(gap for gap, _ in gaps) / 90
    assert expected_calibration_error(y_true, proba, return_n_bins=True, **options) == (
        pytest.approx(ece, rel=1e-12),
        5,
    )
    mce = max(gap / n for gap, n in gaps)
    value = maximum_calibration_error(y_true, proba, **options)
    assert value == pytest.approx(mce, rel=1e-12)
    # Both classes have bins of their own.
    other = expected_calibration_error(1 - y_true, 1 - proba, **options)
    value = classwise_calibration_error(y_true, proba, **options)
    assert value == pytest.approx((ece + other) / 2, rel=1e-12)


def test_two_means_over_four_classes():
    """Gaps of 1/6, -1/6, 0 and 0: the root of 1/72, and a quarter of that of 1/18."""
    y_true, proba = np.arange(8) % 4, np.tile([5 / 12, 1 / 12, 1 / 4, 1 / 4], (8, 1))
    value = classwise_calibration_error(y_true, proba, norm=2)
    assert value == pytest.approx(0.11785113019775793, rel=1e-12)
    value = classwise_calibration_error(y_true, proba, norm=2, average="sum") / 4
    assert value == pytest.approx(0.05892556509887896, rel=1e-12)


def test_named_orders():
    """Numbers and names agree, and powers of small gaps do not underflow."""
    rng = np.random.default_rng(0)
    proba, y_true = rng.dirichlet(np.ones(3), size=90), np.arange(90) % 3
    for strategy in ("quantile", "isotonic"):
        options = {"strategy": strategy}
        for name, order in (("l1", 1), ("l2", 2), ("max", 1e6)):
            expected = classwise_calibration_error(y_true, proba, norm=name, **options)
            value = classwise_calibration_error(y_true, proba, norm=order, **options)
            assert value == pytest.approx(expected, rel=2e-5)


def test_published_values(shared_data):
    """ResNet-110 on CIFAR-10, Kull et al. 2019, and scaled by their temperature.

    The sums over classes are theirs with 15 bins; they print them with 14.
    """
    data = shared_data("logits/cifar10_resnet110_kull.npz")
    labels, logits = data["test_labels"], data["test_logits"].astype(np.float64)
    for temperature, ece, classwise in [
        (1.0, 0.047503, 0.098290),
        (2.3950, 0.011321, 0.043430),
    ]:
        proba = softmax(logits / temperature, axis=1)
        value = expected_calibration_error(labels, proba)
        assert value == pytest.approx(ece, abs=2e-6)
        value = classwise_calibration_error(labels, proba, average="sum")
        assert value == pytest.approx(classwise, abs=2e-6)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_a_confidence_of_one_shares_the_last_bin(strategy):
    """In a separate bin, its gap would be 0 and that of the others 0.05."""
    confidence = np.array([0.95] * 10 + [1.0] * 10)
    y_true = np.array([True] * 9 + [False] + [True] * 10)
    proba = np.column_stack([1 - confidence, confidence])
    error = expected_calibration_error(
        y_true, proba, n_bins=1 if strategy == "quantile" else 15, strategy=strategy
    )
    assert error == pytest.approx(0.025)


def test_modes_of_two_classes():
    y_true, positive = [0, 0, 0, 1], np.array([0.1, 0.1, 0.9, 0.9])
    proba = np.column_stack([1 - positive, positive])
    # The positive class: 0.1 against 0/2 and 0.9 against 1/2.
    assert expected_calibration_error(y_true, positive) == pytest.approx(0.25)
    value = expected_calibration_error(y_true, proba, mode="positive")
    assert value == pytest.approx(0.25)
    # The top label: 0.9 against 3/4.
    assert expected_calibration_error(y_true, proba) == pytest.approx(0.15)
    value = expected_calibration_error(y_true, positive, mode="top_label")
    assert value == pytest.approx(0.15)
    value = expected_calibration_error(y_true, positive, mode="classwise")
    assert value == pytest.approx(0.25)


def test_first_column_is_predicted_on_ties():
    y_true, proba = [0, 1], [[0.5, 0.5], [0.5, 0.5]]
    assert expected_calibration_error(y_true, proba) == 0
    weight = [3, 1]
    value = expected_calibration_error(y_true, proba, sample_weight=weight)
    assert value == pytest.approx(0.25)


def test_the_positive_class_is_one_of_two():
    proba = np.full((3, 3), 1 / 3)
    with pytest.raises(
        ValueError, match=r"requires two classes, got 3 columns.*classwise"
    ):
        expected_calibration_error([0, 1, 2], proba, mode="positive")


@pytest.mark.parametrize(
    ("name", "value"),
    [("norm", "l3"), ("norm", 0.5), ("mode", "all"), ("mode", 1)],
)
def test_bad_options(name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter .* Got {value!r}"):
        expected_calibration_error([0, 1], [0.2, 0.8], **{name: value})
