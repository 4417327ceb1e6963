"""Pages of the site: width of code, search terms, links, and advice that agrees."""

import csv
import re
import runpy
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from sklearn_calib.calibrators import get_calibrator, get_calibrator_names

DOC = Path(__file__).parent.parent / "doc"
TABLES = DOC.parent / "benchmarks" / "studies" / "tables"
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


def page_rows(heading):
    """Return the cells of a table of the page on calibrators, by class name."""
    text = section(read("results_calibrators"), heading)
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", text, re.MULTILINE)
    assert rows
    return {name: cells.split(" | ") for name, cells in rows}


def stored_rows(name, key="calibrator", **where):
    """Return the rows of a stored table by the class name, with default parameters."""
    with (TABLES / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if where.items() <= row.items()]
    names = {name: get_calibrator(name).__name__ for name in get_calibrator_names()}
    names |= {"boosting": "BoostingCalibrator"}
    for name in ("structured_matrix", "structured_vector", "joint_beta"):
        # Without an ending, they have the strength of the authors.
        default = names.pop(name)
        names |= {f"{name}_eb": default, f"{name}, empirical Bayes": default}
    return {names[row[key]]: row for row in rows if row[key] in names}


def numbers(cells):
    """Return the numbers of some cells, in their order."""
    return [float(n) for cell in cells for n in re.findall(r"[\d.]*\d", cell)]


@pytest.mark.parametrize(
    ("heading", "table", "key", "columns"),
    [
        (
            "Public logits",
            "public_logits_ranks",
            "calibrator",
            ["log loss", "95 % interval", "ECE"],
        ),
        (
            "Forests and",
            "trees_by_size",
            "method",
            ["mean", "forest: all", "boosting: all"],
        ),
    ],
)
def test_ranks_on_the_page_are_those_that_were_measured(heading, table, key, columns):
    stored = stored_rows(table, key)
    for name, cells in page_rows(heading).items():
        assert numbers(cells) == numbers(stored[name][c] for c in columns), name


def test_win_rates_on_the_page_are_those_that_were_measured():
    groups = ["two classes", "3 to 10 classes", "more than 10 classes"]
    tables = [stored_rows("win_rates", "method", group=group) for group in groups]
    columns = ["nll win rate", "nll low", "nll high"]
    for name, cells in page_rows("CalArena").items():
        stored = [float(table[name][c]) for table in tables for c in columns]
        assert numbers(cells) == pytest.approx(stored, abs=0.0051), name


def test_costs_of_few_errors_on_the_page_are_those_that_were_measured():
    stored = stored_rows("calibration_size_cost")
    columns = ["needs", "2: 10", "2: 50", "10: 10", "10: 50"]
    for name, cells in page_rows("Errors").items():
        assert cells == [stored[name][c].split(" ± ")[0] for c in columns], name


def test_the_recipe_for_trees_uses_the_calibrator_that_ranks_first():
    """By the mean over forests, boosting and several numbers of samples."""
    ranks = stored_rows("trees_by_size", "method")
    name = min(ranks, key=lambda name: float(ranks[name]["mean"]))
    assert f"import {name}" in read("recipes/trees")
    assert f"`{name}`" in read("what_to_use")
