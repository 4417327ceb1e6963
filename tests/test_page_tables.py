"""Tables of the documentation that are read from the code."""

import runpy
from pathlib import Path

import sklearn_calib
from sklearn_calib.losses import get_loss

CHECKOUT = Path(__file__).parent.parent
TABLES = runpy.run_path(str(CHECKOUT / "tools" / "page_tables.py"))


def test_each_topic_is_on_the_page_of_the_api():
    text = (CHECKOUT / "doc" / "api.md").read_text(encoding="utf-8")
    for topic in [*sklearn_calib.__all__, "calibrators.operations"]:
        if hasattr(getattr(sklearn_calib, topic, None), "__path__") or "." in topic:
            assert f"<!-- table: names {topic} -->" in text, topic


def test_a_loss_has_math_and_its_source():
    *_, row = TABLES["loss_rows"]().splitlines()
    assert row.startswith("| `weighted_mmce` | square root of `mmce`, ")
    assert row.endswith(" | [A. Kumar et al. 2018](generated/bibliography.md) |")


def test_each_saved_class_has_a_row():
    table = TABLES["files"]()
    assert "| `BetaCalibration()` | " in table
    assert "`maps_`: list of n_maps: array (3,)" in table


def test_proper_losses_are_minimal_at_the_truth():
    minimum = {name: TABLES["minimiser"](get_loss(name)) for name in ("brier", "focal")}
    assert minimum == {"brier": "0.700", "focal": "0.558"}
