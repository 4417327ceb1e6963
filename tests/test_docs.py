"""What the documentation shows does what it says."""

import ast
import builtins
import inspect
import re
import runpy
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import pytest

mpl = pytest.importorskip("matplotlib", reason="the pages draw")
plt = pytest.importorskip("matplotlib.pyplot")

CHECKOUT = Path(__file__).parent.parent
DOCS = runpy.run_path(str(CHECKOUT / "tools" / "run_docs.py"))
BIBLIOGRAPHY = runpy.run_path(str(CHECKOUT / "tools" / "bibliography.py"))
SITE = runpy.run_path(str(CHECKOUT / "tools" / "check_site.py"))
# tests/test_recipes.py runs the recipes, each with what it needs.
PAGES = [page for page in DOCS["PAGES"] if page.parent.name != "recipes"]


@pytest.mark.slow
@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_runs(page, tmp_path, monkeypatch):
    if "fetch_openml" in page.read_text("utf-8") and not DOCS["TABLES"].exists():
        pytest.skip(f"needs the shared data: {DOCS['TABLES']} does not exist")
    monkeypatch.chdir(tmp_path)
    mpl.use("agg")
    plt.close("all")
    DOCS["run"](page)
    drawn = DOCS["pictures"](page, len(plt.get_fignums()))
    plt.close("all")
    (one,) = DOCS["pictures"](page, 1)
    stored = [one] if one.exists() else sorted(one.parent.glob(f"{one.stem}-[0-9].png"))
    assert drawn == stored, "run python tools/run_docs.py"


def test_blocks_of_the_page_on_scaling_run_alone():
    """Each defines or imports the names that it reads."""
    page = (CHECKOUT / "doc" / "guide" / "scaling.md").read_text("utf-8")
    blocks = re.findall(r"^```py(?:thon)?\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) > 3
    for block in blocks:
        nodes = [*ast.walk(ast.parse(block))]
        names = [node for node in nodes if isinstance(node, ast.Name)]
        known = {each.id for each in names if isinstance(each.ctx, ast.Store)}
        known |= {each.arg for each in nodes if isinstance(each, ast.arg)}
        known |= {each.name for each in nodes if isinstance(each, ast.FunctionDef)}
        known |= {
            (alias.asname or alias.name).partition(".")[0]
            for each in nodes
            if isinstance(each, ast.Import | ast.ImportFrom)
            for alias in each.names
        }
        assert not {each.id for each in names} - known - {*dir(builtins)}, block


@pytest.mark.parametrize(
    "path", sorted(CHECKOUT.glob("examples/plot_*.py")), ids=lambda path: path.stem
)
def test_example_runs_in_a_notebook(path):
    """The gallery runs it as one, without a file of its own."""
    assert "__file__" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "path", sorted(CHECKOUT.glob("examples/plot_*.py")), ids=lambda path: path.stem
)
def test_example_asks_a_question_and_takes_less_than_a_minute(path):
    head = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert "?" in head
    assert re.search(
        r"Takes about (half a minute|fifteen seconds|[1-5]\d seconds) on (one|two) c",
        " ".join(head.split()),
    )


@pytest.mark.parametrize("topic", BIBLIOGRAPHY["TOPICS"])
def test_every_reference_can_be_read(topic):
    module = import_module(f"sklearn_calib.{topic}")
    unread = [
        f"{name}: {reference}"
        for name in module.__all__
        for reference in BIBLIOGRAPHY["references"](
            inspect.getdoc(getattr(module, name)) or ""
        )
        if BIBLIOGRAPHY["parse"](reference) is None
    ]
    assert not unread, "write authors, year, title as in tools/bibliography.py"


def test_a_paper_is_in_the_bibliography_once():
    papers = BIBLIOGRAPHY["papers"]()
    titles = [re.sub(r"\W", "", title.lower()) for _, _, title, _ in papers]
    assert len(titles) == len(set(titles)) > 50
    cited_by = [
        names for paper, names in papers.items() if "Focal Loss for Dense" in paper[2]
    ]
    assert "losses.focal_loss" in cited_by[0]


def test_a_paper_is_cited_in_the_same_words_everywhere():
    patterns = "sklearn_calib/**/*.py", "doc/**/*.md", "benchmarks/papers/**/*", "*.md"
    paths = [path for pattern in patterns for path in CHECKOUT.glob(pattern)]
    paths = [path for path in paths if "__pycache__" not in path.parts]
    text = " ".join(path.read_text("utf-8") for path in paths if path.is_file())
    parts, places = " ".join(text.split()).split('"'), defaultdict(list)
    for place, part in enumerate(parts):
        places[part.lower()].append(place)
    for authors, year, title, where in BIBLIOGRAPHY["papers"]():
        ends = tuple(f", {where}{gap}{year}" for gap in ("", ",", " ", ", "))
        for place in places[title.lower()]:
            assert parts[place - 1].endswith(f"{authors}, "), title
            assert parts[place] == title
            assert parts[place + 1].startswith(ends), title


def test_each_script_of_the_benchmarks_is_listed():
    folder = CHECKOUT / "benchmarks"
    scripts = {
        path.relative_to(CHECKOUT).as_posix()
        for path in folder.rglob("*.py")
        if "__main__" in path.read_text("utf-8")
    }
    text = (folder / "README.md").read_text("utf-8")
    assert scripts == set(re.findall(r"`python (\S+\.py)", text))


def test_missing_links_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<h1 id="top1"><a href="b.html#no"></a><img src="c.png"><a href="#top1"></a>'
        '<a href="https://example.org/x"></a>'
    )
    (tmp_path / "b.html").write_text('<p id="yes">')
    assert sorted(SITE["faults"](SITE["read"](tmp_path), tmp_path)) == [
        "a.html: b.html#no has no such place",
        "a.html: c.png is not there",
    ]
