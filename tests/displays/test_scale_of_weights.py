"""Scaled weights give the same figure, except for the scale of the counts."""

import inspect

import numpy as np
import pytest

from sklearn_calib import displays
from sklearn_calib.displays import (
    ReliabilityDisplay,
    RiskCoverageDisplay,
)


def takes_weights(name):
    from_predictions = getattr(getattr(displays, name), "from_predictions", None)
    return from_predictions and "sample_weight" in (
        inspect.signature(from_predictions).parameters
    )


NAMES = list(filter(takes_weights, displays.__all__))
# Attributes that are counts, which sum to the weights.
COUNTS = {"correct", "counts", "histogram", "incorrect"}


def problem():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet([0.5, 1, 1], size=60)
    return np.arange(60) % 3, proba, rng.uniform(0.5, 2, size=60)


def options_of(display_class, **options):
    """Return those of the options that the display takes."""
    taken = inspect.signature(display_class.from_predictions).parameters
    return {name: value for name, value in options.items() if name in taken}


def numbers(display):
    """Return the constructor arguments, with counts as fractions."""
    found = {}
    for name in inspect.signature(type(display)).parameters:
        value = getattr(display, name)
        if name == "displays":
            found |= {
                (index, each): part
                for index, one in enumerate(value)
                for each, part in numbers(one).items()
            }
        elif (
            isinstance(value, np.ndarray | tuple | float)
            and np.asarray(value).dtype.kind in "iuf"
            and name != "classes"
        ):
            found[name] = np.asarray(value, dtype=float)
            if name in COUNTS:
                found[name] /= found[name].sum()
    return found


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("factor", [7, 1e6, 1e-6])
def test_scale_does_not_matter(name, factor):
    display_class = getattr(displays, name)
    if display_class is RiskCoverageDisplay and factor < 1:
        pytest.skip("no area of less than one sample")
    codes, proba, weight = problem()
    options = options_of(
        display_class, random_state=0, n_resamples=20, groups=codes > 0
    )
    expected, scaled = (
        numbers(
            display_class.from_predictions(
                codes, proba, sample_weight=weight * each, **options
            )
        )
        for each in (1, factor)
    )
    if display_class is RiskCoverageDisplay:
        # It is of finitely many samples, and counts them.
        assert expected.pop("aurc") != scaled.pop("aurc")
    assert expected.keys() == scaled.keys()
    for each, value in expected.items():
        np.testing.assert_allclose(
            scaled[each], value, rtol=1e-12, atol=1e-15, err_msg=str(each)
        )


def test_area_of_less_than_one_sample_is_refused():
    codes, proba, weight = problem()
    with pytest.raises(ValueError, match="sample_weight must sum to at least 1"):
        RiskCoverageDisplay.from_predictions(codes, proba, sample_weight=weight * 1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_weights_of_any_range_are_drawn(name, draw_all):
    codes, proba, _ = problem()
    weight = np.logspace(0, -6, 60)
    display_class = getattr(displays, name)
    options = {"classes": [0, 2]} if name == "ClasswiseReliabilityDisplay" else {}
    options |= options_of(
        display_class, groups=codes > 0, sample_weight=weight, n_resamples=5
    )
    draw_all(display_class.from_predictions(codes, proba, **options).figure_)


def test_most_bins():
    """Too many bins are an error, even if their number depends on the weights."""
    codes, proba, weight = problem()
    with pytest.raises(ValueError, match=r"n_bins must be at most 1000 .* got 10{9}\."):
        ReliabilityDisplay.from_predictions(codes, proba, n_bins=10**9)
    with pytest.raises(ValueError, match="n_bins must be at most 1000"):
        ReliabilityDisplay.from_predictions(
            codes, proba, n_bins="cube_root", sample_weight=weight * 1e12
        )
