"""The overview of the losses is what the registry says."""

import runpy
from pathlib import Path

CHECKOUT = Path(__file__).parent.parent


def test_the_page_is_up_to_date():
    tool = runpy.run_path(str(CHECKOUT / "tools" / "loss_overview.py"))
    page = (CHECKOUT / "doc" / "losses.md").read_text(encoding="utf-8")
    assert page == tool["render"](), "run python tools/loss_overview.py"


def test_proper_losses_are_minimal_at_the_truth():
    tool = runpy.run_path(str(CHECKOUT / "tools" / "loss_overview.py"))
    minimum = {
        name: tool["minimiser"](tool["get_loss"](name)) for name in ("brier", "focal")
    }
    assert minimum == {"brier": "0.700", "focal": "0.558"}
