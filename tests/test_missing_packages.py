"""Errors of missing packages; without_torch.py asks for them with all public names."""

import pytest

from sklearn_calib._missing_packages import explain_missing


@pytest.mark.parametrize(
    "error",
    [
        ImportError("cannot import name", name="torch"),
        ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn"),
        ModuleNotFoundError("No module named 'tabulate'", name="tabulate"),
    ],
)
def test_errors_of_broken_packages_are_not_changed(error):
    with pytest.raises(ImportError) as caught, explain_missing("MLP"):
        raise error
    assert caught.value is error
