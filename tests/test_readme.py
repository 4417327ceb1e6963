"""What the README shows does what it says."""

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")


def blocks(language, text=README):
    """Return the fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.mark.slow
@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("code", blocks("python"))
def test_usage_example_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("heading", ["Try it", "Test it"])
def test_one_command_under_its_heading(heading):
    """.ci/run takes the first bash block under each of these headings."""
    section = README.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    (command,) = blocks("bash", section)
    assert len(command.splitlines()) == 1
    assert "-c constraints.txt" in command


def test_linked_files_exist():
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", README)
    assert links
    assert not [link for link in links if not (CHECKOUT / link).exists()]
