"""Print the bibliography: the references of all public docstrings, each paper once.

    python tools/bibliography.py

The documentation makes its page of references with it. A reference reads
`Authors, "Title", where year`; what follows, such as `equation 4`, stays in the
docstring.
"""

import inspect
import re
from collections import defaultdict
from importlib import import_module

import sklearn_calib

TOPICS = [
    name
    for name in sklearn_calib.__all__
    if inspect.ismodule(getattr(sklearn_calib, name))
]
FORM = r'([^"]+), "(?P<title>.+?)", (?P<where>.*?),? ?(?P<year>(?:19|20)\d\d)\b'


def references(docstring):
    """Yield the references of a docstring, each on one line."""
    entry = r"^\s*\.\. \[\d+\] (.*?)(?=^\s*\.\. \[|^\s*$|\Z)"
    for text in re.findall(entry, docstring, re.DOTALL | re.MULTILINE):
        yield re.sub(r"\s+", " ", text).strip()


def parse(reference):
    """Return authors, year, title and source of a reference, or None if unparsable."""
    found = re.match(FORM, reference)
    return found and found.group(1, "year", "title", "where")


def papers():
    """Return the names whose docstrings cite each paper."""
    cited_by = defaultdict(set)
    for topic in TOPICS:
        module = import_module(f"sklearn_calib.{topic}")
        for name in module.__all__:
            for reference in references(inspect.getdoc(getattr(module, name)) or ""):
                cited_by[parse(reference)].add(f"{topic}.{name}")
    return {paper: sorted(names) for paper, names in cited_by.items()}


def surname(paper):
    """Return the sort key of a paper: the first author's last name, and the year."""
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
