"""Print the bibliography: the references of all public docstrings, each paper once.

    python tools/bibliography.py

The documentation makes its page of references with it. A reference reads
`Authors (year). Title. Where.` or `Authors, "Title", where year.`; what names a part of
the paper, such as `Equation 4`, stays in the docstring.
"""

import inspect
import re
from collections import defaultdict
from importlib import import_module

import sklearn_calib

ROOMS = [name for name in sklearn_calib.__all__ if name.islower() and name[0] != "_"]
YEAR = r"(?P<year>(?:19|20)\d\d)\b"
FORMS = (
    rf'(?P<authors>[^"]+), "(?P<title>.+?)", (?P<where>.*?),? ?{YEAR}',
    rf"(?P<authors>[^(\"]+) \({YEAR}\)\. (?P<title>.+?[.?])(?: |$)(?P<where>.*)",
)
PART = (
    r"\b(?:Equations?|Sections?|Algorithm|Figures?|Tables?|Theorem|Definition|"
    r"As |In |Their |The )"
)


def references(docstring):
    """Yield the references of a docstring, each on one line."""
    entry = r"^\s*\.\. \[\d+\] (.*?)(?=^\s*\.\. \[|^\s*$|\Z)"
    for text in re.findall(entry, docstring, re.DOTALL | re.MULTILINE):
        yield re.sub(r"\s+", " ", text).strip()


def parse(reference):
    """Return authors, year, title and where of a reference, None for another form."""
    for form in FORMS:
        if found := re.match(form, reference):
            where = re.split(PART, found["where"])[0].strip(" .,")
            title = found["title"].rstrip(".")
            return found["authors"], found["year"], title, where
    return None


def papers():
    """Return what each paper is cited by, the paper as its longest authors name it."""
    spelled, cited_by = {}, defaultdict(set)
    for room in ROOMS:
        module = import_module(f"sklearn_calib.{room}")
        for name in module.__all__:
            for reference in references(inspect.getdoc(getattr(module, name)) or ""):
                if (paper := parse(reference)) is None:
                    continue
                key = paper[1], re.sub(r"\W", "", paper[2].lower())
                spelled[key] = max(
                    spelled.get(key, paper), paper, key=lambda p: len(p[0])
                )
                cited_by[key].add(f"{room}.{name}")
    return {spelled[key]: sorted(names) for key, names in cited_by.items()}


def surname(paper):
    """Return what a paper is sorted by: the first author's last word, and the year."""
    first = re.split(r",| and | et al", paper[0])[0]
    return first.split()[-1].lower(), paper[1], paper[2]


def render():
    """Return the page."""
    lines = [
        "# Bibliography",
        "",
        "Every source that a docstring names, and what it is the source of. The",
        "docstrings add the equation or the section.",
        "",
    ]
    found = papers()
    for authors, year, title, where in sorted(found, key=surname):
        place = f" {where}." if where else ""
        names = ", ".join(f"`{name}`" for name in found[authors, year, title, where])
        stop = "" if title[-1] in "?!." else "."
        lines.append(f"- {authors} ({year}). *{title}*{stop}{place} In {names}.")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(render(), end="")
