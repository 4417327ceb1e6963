"""Claims: each has a figure, a command that exists, and a page that makes it."""

import datetime as dt
import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent
CLAIMS = CHECKOUT / "doc" / "claims.md"
PAGES = [
    page
    for page in [CHECKOUT / "README.md", *sorted((CHECKOUT / "doc").rglob("*.md"))]
    if "generated" not in page.parts and page != CLAIMS
]
FIGURE = re.compile(r"\[(.+)\]\{#([a-z0-9-]+)\}")
LINK = re.compile(r"\[([^\[\]]*)\]\(([^()\s]*claims\.md)#?([^()\s]*)\)")


def read_rows():
    """Return the cells of each claim, by its name."""
    rows = {}
    for line in CLAIMS.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        found = FIGURE.fullmatch(cells[1]) if len(cells) == 5 else None
        if found:
            figure, name = found.groups()
            assert name not in rows, name
            rows[name] = cells[0], figure, *cells[2:]
        else:
            assert "{#" not in line, f"not a row of five cells: {line}"
    return rows


ROWS = read_rows()


def links(page):
    """Yield the text, the file and the name of each link to a claim."""
    for text, path, name in LINK.findall(page.read_text(encoding="utf-8")):
        yield " ".join(text.split()), (page.parent / path).resolve(), name


def faults(page):
    """Yield a line for each link that does not show what it should."""
    for text, path, name in links(page):
        if path != CLAIMS:
            yield f"{path} is not the page of claims"
        elif name and name not in ROWS:
            yield f"there is no claim {name}"
        elif name and re.search(r"\d", text) and ROWS[name][1] not in text:
            yield f'"{text}" does not show "{ROWS[name][1]}" of {name}'


def test_the_claims_can_be_read_in_one_sitting():
    assert 20 < len(ROWS) <= 60


@pytest.mark.parametrize("name", ROWS)
def test_a_claim_can_be_measured_again(name):
    claim, figure, data, command, date = ROWS[name]
    assert claim.endswith((".", ")"))
    assert re.search(r"\d", figure)
    assert data
    (script,) = re.findall(r"`python (\S+\.py)[^`]*`", command)
    assert (CHECKOUT / script).exists()
    assert dt.date.fromisoformat(date)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_to_claims_show_their_figures(page):
    assert [*faults(page)] == []


def test_each_claim_is_made_on_a_page():
    made = {name for page in PAGES for _, _, name in links(page)}
    assert set(ROWS) - made == set()
