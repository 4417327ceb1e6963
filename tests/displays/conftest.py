"""Shared by the tests of displays: displays that are constructed but not drawn."""

from contextlib import contextmanager

import matplotlib.pyplot as plt
import pytest

from sklearn_calib import displays


@pytest.fixture(autouse=True)
def close_figures():
    plt.close("all")
    yield
    plt.close("all")


@pytest.fixture(scope="session")
def without_drawing():
    """Return a context in which displays are constructed but not drawn."""
    return _without_drawing


@contextmanager
def _without_drawing():
    with pytest.MonkeyPatch.context() as patch:
        for name in displays.__all__:
            patch.setattr(getattr(displays, name), "plot", lambda self, *_, **__: self)
        panels = staticmethod(lambda _, headings: [None] * len(headings))
        for cls in (
            displays.ClasswiseReliabilityDisplay,
            displays.GroupReliabilityDisplay,
        ):
            patch.setattr(cls, "_panels", panels)
            patch.setattr(cls, "_finish", lambda self, _: self)
        yield


@pytest.fixture(scope="session")
def draw_all():
    """Return a function that draws a figure without a layout, which takes longer."""

    def draw(figure):
        figure.set_layout_engine("none")
        figure.draw_without_rendering()

    return draw


@pytest.fixture(scope="session")
def arrange():
    """Return a function that arranges axes and legends, as if there were no ticks.

    Ticks and their labels take most of the time of a layout.
    """

    def arrange_without_ticks(figure):
        for ax in figure.axes:
            ax.set(xticks=[], yticks=[])
        figure.get_layout_engine().execute(figure)

    return arrange_without_ticks


@pytest.fixture
def undrawn(without_drawing):
    """Construct displays without drawing them, for tests of their numbers.

    tests/displays/test_common.py checks that the numbers determine what is drawn.
    """
    with without_drawing():
        yield
