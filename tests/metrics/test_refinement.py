"""Calibration and refinement error, against other implementations and by hand."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import log_loss

from sklearn_calib.metrics import proper_calibration_error, refinement_error

WAYS = ["temperature", "isotonic", "bins"]


def draw(n_classes, n_samples=300, sharpness=1.0):
    """Return labels and probabilities that are calibrated at a sharpness of 1."""
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(n_classes), n_samples)
    y = (proba.cumsum(axis=1) < rng.uniform(size=(n_samples, 1))).sum(axis=1)
    proba = proba**sharpness
    return y, proba / proba.sum(axis=1, keepdims=True)


def total(y, proba, loss, weight=None):
    if loss == "log":
        return log_loss(y, proba, labels=range(proba.shape[1]), sample_weight=weight)
    distance = ((proba - np.eye(proba.shape[1])[y]) ** 2).sum(axis=1)
    return np.average(distance, weights=weight)


def test_recorded_numbers(reference):
    recorded = reference("metric_refinement")
    ours = {"calib-err": proper_calibration_error, "refinement": refinement_error}
    losses = {"logloss": "log", "brier": "brier"}
    for case in recorded["expected"]:
        proba, y = map(np.array, recorded["inputs"][case["input"]].values())
        for key, expected in case["values"].items():
            part, loss = key.split("_")[:2]
            labels = range(proba.shape[1])
            value = ours[part](y, proba, loss=losses[loss], labels=labels)
            assert value == pytest.approx(expected, abs=1e-9), (case["id"], key)


@pytest.mark.parametrize("recalibration", WAYS)
@pytest.mark.parametrize(
    ("loss", "n_classes"), [("log", 2), ("brier", 2), ("brier", 4)]
)
def test_the_parts_sum_to_the_loss(loss, recalibration, n_classes):
    y, proba = draw(n_classes, sharpness=3.0)
    weight = np.random.default_rng(1).uniform(size=len(y))
    options = {"loss": loss, "recalibration": recalibration, "sample_weight": weight}
    parts = [
        f(y, proba, **options) for f in (proper_calibration_error, refinement_error)
    ]
    assert sum(parts) == pytest.approx(total(y, proba, loss, weight), rel=1e-12)
    assert min(parts) > 0.02


@pytest.mark.parametrize(
    ("loss", "expected"), [("log", np.log(2) / 2), ("brier", 0.25)]
)
def test_isotonic_by_hand(loss, expected):
    """The middle two are exchanged, and become 1 / 2."""
    y, proba = [0, 1, 0, 1], [0.1, 0.4, 0.6, 0.9]
    value = refinement_error(y, proba, loss=loss, recalibration="isotonic")
    assert value == pytest.approx(expected, rel=1e-12)


def test_bins_by_hand():
    """Two bins, with one of two and three of four positives."""
    proba = [0.1, 0.3, 0.6, 0.7, 0.8, 0.9]
    options = {"loss": "brier", "recalibration": "bins", "n_bins": 2}
    value = refinement_error([0, 1, 1, 1, 0, 1], proba, **options)
    assert value == pytest.approx(2 * (2 * 1 / 4 + 4 * 3 / 16) / 6, rel=1e-12)


def test_number_of_bins_by_the_cube_root():
    y, proba = draw(2, sharpness=3.0)
    options = {"loss": "brier", "recalibration": "bins"}
    value = refinement_error(y, proba, n_bins="cube_root", **options)
    n_bins = int(np.ceil(np.cbrt(len(y))))
    assert value == refinement_error(y, proba, n_bins=n_bins, **options)


def test_isotonic_is_scikit_learns():
    y, proba = draw(2, sharpness=3.0)
    positive = proba[:, 1].round(1)
    pooled = IsotonicRegression().fit_transform(positive, y)
    value = refinement_error(y, positive, loss="brier", recalibration="isotonic")
    assert value == pytest.approx(2 * np.mean((pooled - y) ** 2), rel=1e-12)


def test_temperature_finds_the_sharpness():
    """Scaling the logits does not change the refinement error."""
    y, proba = draw(4)
    too_sharp = draw(4, sharpness=3.0)[1]
    assert refinement_error(y, too_sharp) == pytest.approx(
        refinement_error(y, proba), rel=1e-6
    )
    assert proper_calibration_error(y, too_sharp) > 0.3
    assert abs(proper_calibration_error(y, proba)) < 0.005


@given(
    st.lists(
        st.tuples(st.integers(0, 8), st.booleans(), st.integers(0, 2)), min_size=1
    ),
    st.sampled_from(["log", "brier"]),
)
def test_isotonic_never_makes_it_worse(samples, loss):
    level, y, weight = map(np.array, zip((4, True, 1), *samples, strict=True))
    options = {"loss": loss, "recalibration": "isotonic", "labels": [False, True]}
    error = proper_calibration_error(y, level / 8, sample_weight=weight, **options)
    assert error >= -1e-12


@pytest.mark.parametrize("recalibration", ["isotonic", "bins"])
def test_log_loss_of_many_classes(recalibration):
    y, proba = draw(4)
    with pytest.raises(ValueError, match=f"got '{recalibration}' and 4 classes.*brier"):
        refinement_error(y, proba, recalibration=recalibration)


@pytest.mark.parametrize("option", [{"loss": "mse"}, {"recalibration": "beta"}])
def test_bad_options(option):
    with pytest.raises(ValueError, match=f"'{next(iter(option))}' parameter"):
        proper_calibration_error([0, 1], [0.2, 0.7], **option)
