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


def test_claims_of_the_papers_are_shown_with_their_verdicts():
    _, _, first, *rows = TABLES["verdicts"]().splitlines()
    # Ghosh et al., table 1: 0.66 / 4.24 by ResNet-50 on CIFAR-10.
    start = "| AdaFocal | AdaFocal is better calibrated than cross-entropy | 0.16 | "
    assert first.startswith(start)
    assert first.endswith(" | **holds** |")
    assert len(rows) == 28


def test_losses_are_compared_with_cross_entropy():
    _, _, absolute, *rows = TABLES["loss_ratios"]().replace("\xa0", " ").splitlines()
    assert absolute.startswith("| `cross_entropy` | 16.2 % → 1.2 % | ")
    focal = next(row for row in rows if row.startswith("| `focal`, gamma=3.0 | "))
    assert focal.split(" | ")[1] == "**0.17** → 1.96"
    assert focal.split(" | ")[3] == "**1.27** → **0.48**"
