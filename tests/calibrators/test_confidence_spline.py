"""The spline of the confidence, compared with recorded values."""

import numpy as np
import pytest

from sklearn_calib.calibrators._top_label.confidence_spline import _fit_spline


def untied(scores):
    """Set equal scores apart, as the authors' code counts them one after another.

    Its sorting happened to put the first of them last.
    """
    is_first = np.zeros(len(scores))
    is_first[np.unique(scores, return_index=True)[1]] = 1
    apart = np.array(scores)
    apart[np.lexsort((is_first, scores))] += 1e-14 * np.arange(len(scores))
    return apart


@pytest.mark.parametrize(
    "case",
    ["top-1-natural-6", "top-1-natural-4", "top-2-natural-6", "within-top2", "binary"],
)
def test_recorded_maps(reference, case):
    """The recorded table is reproduced; between its points, our weights are correct."""
    recorded = reference("cal_spline")
    binary = recorded["inputs"]["binary"]
    case = next(c for c in recorded["expected"] if c["id"] == case)
    values = case["values"]
    scores = np.array(values.get("fit_scores", binary["fit_scores"]))
    target = np.array(values.get("fit_correct", binary["fit_labels"]))
    test = values.get("test_scores", binary["test_scores"])
    n_knots = case["params"]["knots"]
    x, y = _fit_spline(untied(scores), target, np.ones(len(target)), n_knots)
    np.testing.assert_allclose(x, values["table_x"], atol=1e-11)
    np.testing.assert_allclose(y, values["table_y"], rtol=1e-8, atol=1e-10)
    ours = np.clip(np.interp(test, x, y), 0, 1)
    expected = values["test_correct_interpolation"]
    np.testing.assert_allclose(ours, expected, rtol=1e-8, atol=1e-10)
    assert np.abs(ours - values["test_reference"]).max() > 1e-4
    # A few ties have a small effect.
    x, y = _fit_spline(scores, target, np.ones(len(target)), n_knots)
    np.testing.assert_allclose(np.interp(test, x, y).clip(0, 1), expected, atol=5e-4)
