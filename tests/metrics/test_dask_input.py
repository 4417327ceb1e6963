"""Every metric reduces the blocks of Dask arrays, or raises an error with a hint."""

import dask.array as da
import numpy as np
import pytest

from sklearn_calib.metrics import (
    classwise_calibration_error,
    expected_calibration_error,
)

EXCUSED = {}
REDUCED = {
    "classwise_calibration_error",
    "expected_calibration_error",
    "maximum_calibration_error",
}


def is_reduced(metric):
    """Whether the sums over bins give the value: the edges do not depend on data."""
    has_fixed_bins = metric.keywords.get("strategy", "uniform") == "uniform"
    has_number = not isinstance(metric.keywords.get("n_bins", 15), str)
    return metric.name in REDUCED and has_fixed_bins and has_number


def test_dask_arrays_are_reduced_or_refused(metric, monkeypatch):
    rng = np.random.default_rng(0)
    y_proba = rng.dirichlet(np.ones(2), 60)
    y_true = rng.integers(2, size=60)
    arrays = [da.from_array(each, chunks=25) for each in (y_true, y_proba)]

    def refuse(array, *_, **__):
        raise AssertionError(f"{array} is gathered")

    monkeypatch.setattr(da.Array, "__array__", refuse)
    if is_reduced(metric):
        expected = metric(y_true, y_proba)
        np.testing.assert_allclose(metric(*arrays), expected, rtol=1e-12)
    else:
        hint = r"Dask [Aa]rray(.*)CalibrationAccumulator(.*)compute\(\)"
        with pytest.raises((TypeError, ValueError), match=hint):
            metric(*arrays)


@pytest.mark.parametrize("pos_label", ["leave", "stay"])
@pytest.mark.parametrize("labels", [None, ["leave", "stay"]])
@pytest.mark.parametrize("columns", [slice(None), 0])
@pytest.mark.parametrize(
    "measure", [classwise_calibration_error, expected_calibration_error]
)
def test_positive_class(pos_label, labels, columns, measure):
    rng = np.random.default_rng(0)
    y_proba = rng.dirichlet(np.ones(2), 60)[:, columns]
    y_true = np.array(["leave", "stay"])[rng.integers(2, size=60)]
    options = {"labels": labels, "pos_label": pos_label}
    expected = measure(y_true, y_proba, **options)
    arrays = [da.from_array(each, chunks=25) for each in (y_true, y_proba)]
    assert measure(*arrays, **options) == pytest.approx(expected, rel=1e-12)
    if pos_label == "stay":  # the second label is accepted in every mode
        options |= {"mode": "top_label"}
        expected = expected_calibration_error(y_true, y_proba, **options)
        value = expected_calibration_error(*arrays, **options)
        assert value == pytest.approx(expected, rel=1e-12)
