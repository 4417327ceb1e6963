"""No public name comes or goes unnoticed: public_names.txt lists them."""

from importlib import import_module
from inspect import ismodule
from pathlib import Path

import sklearn_calib
from sklearn_calib.calibrators import get_calibrator_names
from sklearn_calib.losses import get_loss_names
from sklearn_calib.metrics import get_scorer_names

FILE = Path(__file__).parent / "public_names.txt"
CHANGELOG = FILE.parent.parent / "CHANGELOG.md"
BY_WORD = {
    "calibrators.get_calibrator": get_calibrator_names,
    "losses.get_loss": get_loss_names,
    "metrics.get_scorer": get_scorer_names,
}


def public_names():
    """Yield what users import, and the words that stand for it in their grids."""
    names = [n for n in sklearn_calib.__all__ if ismodule(getattr(sklearn_calib, n))]
    for topic in ["", *names, "calibrators.operations"]:
        home = ".".join(["sklearn_calib", topic]).rstrip(".")
        yield from (f"{home}.{name}" for name in import_module(home).__all__)
    for getter, words in BY_WORD.items():
        yield from (f'sklearn_calib.{getter}("{word}")' for word in words())


def test_public_names_are_those_of_the_list():
    present, removed = (
        [line for line in part.splitlines() if line and line[0] != "#"]
        for part in FILE.read_text("utf-8").split("# Removed")
    )
    new = sorted({*public_names()} - {*present})
    assert not new, f"Add the new names to {FILE.name}."
    gone = sorted({*present} - {*public_names()})
    assert not gone, f"Move the removed names to the last part of {FILE.name}."
    assert present == sorted({*present}), f"Sort {FILE.name}."
    assert not {*removed} & {*present}
    changes = CHANGELOG.read_text("utf-8")
    unsaid = [each for each in removed if f"`{each}`" not in changes]
    assert not unsaid, f"Name what was removed in {CHANGELOG.name}."
