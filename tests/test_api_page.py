"""The API page lists every public name with its summary, and nothing else."""

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "doc" / "api.md"
TOPICS = ["calibrators", "callbacks", "datasets", "displays", "estimators", "losses"]
TOPICS += ["deployment", "evaluation", "metrics", "onnx", "persistence"]
TOPICS += ["calibrators.operations"]


def row(topic, name):
    """Return the row of one name: its summary is the docstring's first line."""
    summary = inspect.getdoc(getattr(import_module(f"sklearn_calib.{topic}"), name))
    return f"| `{name}` | {summary.splitlines()[0]} |"


@pytest.mark.parametrize("topic", TOPICS)
def test_the_page_has_a_row_for_each_public_name(topic):
    names = import_module(f"sklearn_calib.{topic}").__all__
    text = PAGE.read_text(encoding="utf-8")
    section = text.split(f"\n## sklearn_calib.{topic}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `.*$", section, re.MULTILINE)
    wanted = [row(topic, name) for name in sorted(names, key=str.lower)]
    changes = [f"add     {each}" for each in wanted if each not in rows]
    changes += [f"remove  {each}" for each in rows if each not in wanted]
    if changes:
        pytest.fail("\n".join([f"doc/api.md, {topic}:", *changes]), pytrace=False)
    assert rows == wanted, "sort the rows by name"
