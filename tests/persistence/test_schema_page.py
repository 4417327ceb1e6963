"""The tables of doc/deploy.md are the schema of the code."""

import runpy
from pathlib import Path

CHECKOUT = Path(__file__).parent.parent.parent


def test_the_page_is_up_to_date():
    tool = runpy.run_path(str(CHECKOUT / "tools" / "file_schema.py"))
    page = (CHECKOUT / "doc" / "deploy.md").read_text(encoding="utf-8")
    assert page == tool["page"](), "run python tools/file_schema.py"
    assert "| `BetaCalibration()` | " in page
    assert "`maps_`: list of n_maps: array (3,)" in page
