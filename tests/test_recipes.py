"""The recipes run as scripts, and print what their pages say."""

import os
import re
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

RUN = runpy.run_path(str(Path(__file__).with_name("run_recipe.py")))
RECIPES = Path(__file__).parent.parent / "doc" / "recipes"
PAGES = sorted(page.stem for page in RECIPES.glob("*.md") if page.stem != "index")
# Not among the package's requirements; pip install them to run these blocks as well.
OPTIONAL = [
    "accelerate",
    "datasets",
    "distributed",
    "imblearn",
    "lightgbm",
    "mlflow",
    "optuna",
    "pandas",
    "polars",
    "pyarrow",
    "pyspark",
    "ray",
    "shap",
    "torchmetrics",
    "transformers",
    "webdataset",
    "xgboost",
]
BLOCK = re.compile(
    r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE
)
# What starts processes.
STARTS = re.compile(r"__main__|^(?:import|from) (?:pyspark|ray)\b", re.MULTILINE)
NUMBER = re.compile(r"\d+\.\d+")


def split_by_need(page):
    """Return what can run here, as code and outputs, and the packages for the rest."""
    blocks, absent = [], []
    for code, output in BLOCK.findall((RECIPES / f"{page}.md").read_text("utf-8")):
        imported = re.findall(r"^(?:import|from) (?:dask\.)?(\w+)", code, re.MULTILINE)
        lacking = [
            each for each in OPTIONAL if each in imported and not find_spec(each)
        ]
        absent += lacking
        if not lacking:
            blocks.append((code, output))
    return blocks, absent


def run_alone(script):
    """Return the exit code, the output and the errors of a script that starts others.

    It is the main module of a new interpreter, which the others import again.
    """
    ignored = [f"-Wignore:{text}:{kind.__name__}" for text, kind in RUN["IGNORED"]]
    patient = os.environ | {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "300s"}
    run = subprocess.run(
        [sys.executable, *ignored, script],
        cwd=script.parent,
        env=patient,
        capture_output=True,
        text=True,
    )
    return run.returncode, run.stdout, run.stderr


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_recipe(page, tmp_path, start, end):
    """As a file, in a process that has loaded torch unless it starts others."""
    blocks, absent = split_by_need(page)
    script = tmp_path / "recipe.py"
    script.write_text("\n".join(code for code, _ in blocks), "utf-8")
    if STARTS.search(script.read_text("utf-8")):
        code, stdout, stderr = run_alone(script)
    else:
        code = end(start(RUN["__file__"], script))
        stdout, stderr = ((tmp_path / n).read_text("utf-8") for n in RUN["OUTPUTS"])
    assert code == 0, stderr
    assert "Warning" not in stderr
    expected = "".join(output for _, output in blocks)
    assert NUMBER.sub("#", stdout) == NUMBER.sub("#", expected)
    # Versions and machines differ a little; a page that is wrong differs more.
    printed = [float(number) for number in NUMBER.findall(stdout)]
    promised = [float(number) for number in NUMBER.findall(expected)]
    assert printed == pytest.approx(promised, rel=0.1, abs=0.03)
    if absent:
        pytest.skip(f"blocks that need {absent}, which are not installed")


def test_index_lists_every_recipe():
    index = (RECIPES / "index.md").read_text("utf-8")
    assert sorted(re.findall(r"\]\((\w+)\.md\)", index)) == PAGES
    assert sorted(index.split(":hidden:\n")[1].split("```")[0].split()) == PAGES
