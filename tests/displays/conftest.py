"""Shared by the tests of displays: displays that are constructed but not drawn."""

import pytest

from sklearn_calib import displays
from sklearn_calib.displays._reliability_panels import ReliabilityPanels


@pytest.fixture
def undrawn(monkeypatch):
    """Construct displays without drawing them, for tests of their numbers.

    tests/displays/test_common.py checks that the numbers determine what is drawn.
    """
    for name in displays.__all__:
        monkeypatch.setattr(
            getattr(displays, name), "plot", lambda self, *_, **__: self
        )
    panels = staticmethod(lambda _, headings: [None] * len(headings))
    monkeypatch.setattr(ReliabilityPanels, "_panels", panels)
    monkeypatch.setattr(ReliabilityPanels, "_finish", lambda self, _: self)
