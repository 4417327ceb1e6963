"""Pages of the site: width of code, search terms, links, and advice that agrees."""

import re
import runpy
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from sklearn_calib.calibrators import get_calibrator

DOC = Path(__file__).parent.parent / "doc"
PAGES = [page for page in DOC.rglob("*.md") if "generated" not in page.parts]
CODE = re.compile(r"^```(?:python|pycon|text)\n(.*?)^```", re.DOTALL | re.MULTILINE)
# Longer lines are cut off on a screen of 1280 pixels.
LONGEST_LINE = 94


def read(name):
    """Return the text of a page."""
    return (DOC / f"{name}.md").read_text(encoding="utf-8")


def section(text, heading):
    """Return the section whose heading starts with some words."""
    return text.split(f"\n## {heading}")[1].split("\n## ")[0]


@pytest.fixture(scope="module")
def conf():
    """Return the settings of Sphinx, which provides `tags`."""
    tags = SimpleNamespace(has=lambda tag: tag == "quick")
    return runpy.run_path(str(DOC / "conf.py"), init_globals={"tags": tags})


def test_code_is_not_cut_off_on_a_desktop():
    found = [
        f"{page.relative_to(DOC)}: {line}"
        for page in PAGES
        for block in CODE.findall(page.read_text(encoding="utf-8"))
        for line in block.splitlines()
        if len(line) > LONGEST_LINE
    ]
    assert not found


@pytest.mark.parametrize(
    ("term", "page"),
    [
        ("ece", "metrics.expected_calibration_error"),
        ("adafocal", "losses.AdaFocalLoss"),
        ("temperature", "calibrators.TemperatureScaling"),
    ],
)
def test_search_terms(conf, term, page):
    assert conf["SEARCH_TERMS"][term] == f"generated/api/sklearn_calib.{page}"


def test_pages_of_search_terms_exist(conf):
    for page in conf["SEARCH_TERMS"].values():
        if page.startswith("generated/api/"):
            package, _, name = page.removeprefix("generated/api/").rpartition(".")
            assert name in import_module(package).__all__
        else:
            assert (DOC / f"{page}.md").exists()


def test_search_terms_are_added_to_the_index(conf):
    page = conf["SEARCH_TERMS"]["ece"]
    env = SimpleNamespace(doc2path=lambda name: f"{name}.rst")
    text = ["title\n=====\n\n.. currentmodule:: sklearn_calib.metrics\n"]
    conf["index_search_terms"](SimpleNamespace(env=env), page, text)
    assert re.search(r"^\.\. index:: .*! ece\b", text[0], re.MULTILINE)
    assert "\n.. currentmodule:: sklearn_calib.metrics\n" in text[0]


def test_names_of_losses_link_to_their_classes(conf):
    env = SimpleNamespace(doc2path=lambda name: f"{name}.md")
    text = ["| `focal` | $x$ |\n\n## Time\n\n| `brier` | 2 |"]
    conf["link_names"](SimpleNamespace(env=env), "losses", text)
    assert "<sklearn_calib.losses.FocalLoss>" in text[0]
    assert "<sklearn_calib.losses.BrierLoss>" in text[0]


def test_ranks_are_not_called_seconds():
    text = section(read("results"), "Calibrators on public logits")
    header, *_ = re.findall(r"^\| calibrator \|.*$", text, re.MULTILINE)
    assert "seconds" not in header
    assert "| time |" in header


def test_the_recipe_for_trees_uses_the_calibrator_that_ranks_first():
    """By the mean over forests, boosting and several numbers of samples."""
    text = section(read("results"), "Calibrators behind forests and boosting")
    table = text.split("### By the number of samples")[1]
    ranks = re.findall(r"^\| (\w+) \| ([\d.]+) ", table, re.MULTILINE)
    name = get_calibrator(min(ranks, key=lambda row: float(row[1]))[0]).__name__
    imported = re.findall(r"calibrators import (\w+)", read("recipes/trees"))
    assert set(imported) == {name, "BoostingCalibrator"}
    assert f"a forest or boosted trees | `{name}`" in read("what_to_use")
