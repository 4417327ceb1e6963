"""What tests of several estimators ask for."""

from math import nan

import pytest


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    """Return a folder, so that a classifier is trained once for all calibrators."""
    return tmp_path_factory.mktemp("memory")


@pytest.fixture
def no_lowest_limit(monkeypatch):
    """Skip the search for the limits that an error message contains."""
    name = "sklearn_calib.estimators._selective.thresholds._lowest_limit"
    monkeypatch.setattr(name, lambda *_: nan)
