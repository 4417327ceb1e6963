"""Run the code of the documentation, page by page, and draw its figures.

    python tools/run_docs.py

The fenced `python` and `pycon` blocks of a page run in order, in one namespace, and the
output shown in `pycon` blocks is checked. The figure of a page is saved as
`doc/images/<page>.png`, in which `guide/losses.md` is `guide-losses`. If there are
several, they are `<page>-1.png`, `<page>-2.png` and so on. A table that a page
downloads is read from the folder that SKLEARN_CALIB_DATA names, if it is there.
"""

import doctest
import os
import re
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd

DOC = Path(__file__).parent.parent / "doc"
PAGES = sorted(p for p in DOC.rglob("*.md") if "generated" not in p.parts)
TABLES = Path(os.environ.get("SKLEARN_CALIB_DATA", "../shared/data")) / "tabular"


def fetch_table(name, **_):
    """Return the features and the labels of a local table, as `fetch_openml` does."""
    frame = pd.read_csv(TABLES / f"{name}.csv.gz", na_values="?")
    frame.columns = frame.columns.str.replace("_", "-")
    names = frame.select_dtypes(exclude="number").columns
    frame = frame.astype(dict.fromkeys(names, "category"))
    return frame.drop(columns=["target", "split"]), frame["target"]


def blocks(text):
    """Return language and code of each block that can run."""
    return re.findall(
        r"^```(python|pycon)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE
    )


def run(page):
    """Run a page, and raise an error if its code or its output is wrong."""
    local = mock.patch("sklearn.datasets.fetch_openml", fetch_table)
    namespace = {"__name__": "__main__"}
    runner = doctest.DebugRunner(verbose=False)
    with local if TABLES.exists() else nullcontext():
        for language, code in blocks(page.read_text(encoding="utf-8")):
            if language == "python":
                exec(compile(code, page.name, "exec"), namespace)
            else:
                parser = doctest.DocTestParser()
                test = parser.get_doctest(code, namespace, page.name, str(page), 0)
                runner.run(test, clear_globs=False)
                namespace = test.globs


def pictures(page, n_figures):
    """Return the paths of the figures of a page."""
    name = "-".join(page.relative_to(DOC).with_suffix("").parts)
    numbers = [""] if n_figures == 1 else [f"-{i + 1}" for i in range(n_figures)]
    return [DOC / "images" / f"{name}{number}.png" for number in numbers]


def main():
    """Run all pages and save their figures."""
    mpl.use("agg")
    for page in PAGES:
        run(page)
        figures = [plt.figure(number) for number in plt.get_fignums()]
        for figure, path in zip(figures, pictures(page, len(figures)), strict=True):
            figure.savefig(path, dpi=90)
        plt.close("all")


if __name__ == "__main__":
    main()
