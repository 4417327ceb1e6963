"""What tests of several estimators ask for."""

import pytest


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    """Return a folder, so that a classifier is trained once for all calibrators."""
    return tmp_path_factory.mktemp("memory")
