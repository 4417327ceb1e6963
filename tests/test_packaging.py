"""The metadata, the tested versions and the code do not drift apart."""

import re
import sys
import tomllib
from importlib import metadata, resources
from pathlib import Path

import jinja2
import pytest
import yaml

import sklearn_calib

CHECKOUT = Path(__file__).parent.parent
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
PINS = dict(
    line.lower().replace("_", "-").split("==")
    for line in (CHECKOUT / "constraints.txt").read_text().splitlines()
    if not line.startswith("#")
)
REQUIREMENTS = [
    *PROJECT["dependencies"],
    *(r for extra in PROJECT["optional-dependencies"].values() for r in extra),
]


def as_numbers(version):
    """Return a version as a tuple that compares."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def test_version_is_stated_once():
    assert metadata.version("sklearn-calib") == sklearn_calib.__version__


def test_typed():
    assert resources.files(sklearn_calib).joinpath("py.typed").is_file()


@pytest.mark.parametrize("requirement", REQUIREMENTS)
def test_tested_version_is_pinned_and_above_the_lower_bound(requirement):
    name, _, bound = requirement.partition(">=")
    if not name.startswith("sklearn-calib"):
        assert name in PINS, f"add {name} to constraints.txt"
        assert as_numbers(PINS[name]) >= as_numbers(bound)


def test_the_conda_recipe_and_the_citation_agree_with_the_project():
    template = jinja2.Template((CHECKOUT / "recipe" / "meta.yaml").read_text())
    read = {"load_file_data": lambda *_, **__: {"project": PROJECT}, "PYTHON": "python"}
    recipe = yaml.safe_load(template.render(read))
    python, *requirements = recipe["requirements"]["run"]
    plain = [r.replace("pytorch", "torch").replace(" ", "") for r in requirements]
    assert (python, plain) == ("python >=3.11", PROJECT["dependencies"])
    citation = yaml.safe_load((CHECKOUT / "CITATION.cff").read_text())
    versions = recipe["package"]["version"], citation["version"]
    assert versions == (sklearn_calib.__version__,) * 2


def test_python_versions_agree():
    lowest = PROJECT["requires-python"].removeprefix(">=")
    assert sys.version_info[:2] >= as_numbers(lowest)
    assert f"Programming Language :: Python :: {lowest}" in PROJECT["classifiers"]


def is_own_text(path):
    """Return whether a file is text of ours, and not of a tool in the checkout."""
    folders = path.relative_to(CHECKOUT).parts[:-1]
    of_tools = re.compile(
        r"\.(?!ci$|github$)|.*\.egg-info$|(__pycache__|build|dist|generated)$"
    )
    suffixes = {".md", ".py", ".rst", ".toml", ".txt", ".yaml", ".yml", ""}
    return path.suffix in suffixes and not any(map(of_tools.match, folders))


def test_no_absolute_path_is_in_the_text():
    """Whoever clones the repository has other folders."""
    # A slash that starts a word, and is no part of a URL, a shebang or a fraction.
    pattern = re.compile(r"(?<![\w.:/!})\]*~$\"])/[a-z]+/\w")
    found = [
        f"{path.relative_to(CHECKOUT)}: {line.strip()}"
        for path in CHECKOUT.rglob("*")
        if path.is_file() and is_own_text(path)
        for line in path.read_text(encoding="utf-8").splitlines()
        if pattern.search(line)
    ]
    assert not found
