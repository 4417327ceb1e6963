"""Run the code of the documentation, page by page, and draw its figures.

    python tools/run_docs.py

The fenced `python` and `pycon` blocks of a page run in order, in one namespace, and the
output shown in `pycon` blocks is checked. The last figure of a page is saved as
`doc/images/<page>.png`, in which `guide/losses.md` is `guide-losses`.
"""

import doctest
import re
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

DOC = Path(__file__).parent.parent / "doc"
PAGES = sorted(p for p in DOC.rglob("*.md") if "generated" not in p.parts)


def blocks(text):
    """Return language and code of each block that can run."""
    return re.findall(
        r"^```(python|pycon)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE
    )


def run(page):
    """Run a page, and raise an error if its code or its output is wrong."""
    namespace = {"__name__": "__main__"}
    runner = doctest.DebugRunner(verbose=False)
    for language, code in blocks(page.read_text(encoding="utf-8")):
        if language == "python":
            exec(compile(code, page.name, "exec"), namespace)
        else:
            parser = doctest.DocTestParser()
            test = parser.get_doctest(code, namespace, page.name, str(page), 0)
            runner.run(test, clear_globs=False)
            namespace = test.globs


def picture(page):
    """Return the path of the figure of a page."""
    return (
        DOC
        / "images"
        / ("-".join(page.relative_to(DOC).with_suffix("").parts) + ".png")
    )


def main():
    """Run all pages and save their figures."""
    mpl.use("agg")
    for page in PAGES:
        run(page)
        if plt.get_fignums():
            plt.savefig(picture(page), dpi=90)
            plt.close("all")


if __name__ == "__main__":
    main()
