"""The metadata, the tested versions and the code do not drift apart."""

import hashlib
import re
import runpy
import shutil
import sys
import tomllib
from importlib import metadata, resources
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import jinja2
import pytest
import yaml

import sklearn_calib
from sklearn_calib._missing_packages import INSTALLED_TOGETHER

CHECKOUT = Path(__file__).parent.parent
SETTINGS = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))
PROJECT = SETTINGS["project"]
PINS = dict(
    line.lower().replace("_", "-").split("==")
    for line in (CHECKOUT / "constraints.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
)
REQUIREMENTS = [
    *PROJECT["dependencies"],
    *chain(*PROJECT["optional-dependencies"].values()),
    *chain(*SETTINGS["dependency-groups"].values()),
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


def names(requirements):
    """Return the names of packages without their lower bounds."""
    return [requirement.partition(">=")[0] for requirement in requirements]


def test_the_page_installs_all_dependencies_but_torch_and_skorch():
    page = (CHECKOUT / "doc" / "deploy.md").read_text(encoding="utf-8")
    section = page.split("\n## Without PyTorch\n")[1]
    listed = re.search(r"-c constraints\.txt (.*?) && ", section)[1].split()
    assert sorted([*listed, "skorch", "torch"]) == names(PROJECT["dependencies"])


def test_missing_packages_are_those_of_the_project():
    extras = PROJECT["optional-dependencies"]
    groups = {packages[0]: packages for packages in INSTALLED_TOGETHER}
    assert sorted(groups.pop("onnx")) == names(extras["onnx"])
    others = names([*PROJECT["dependencies"], *extras["plot"]])
    assert {name for packages in groups.values() for name in packages} <= {*others}


def read_recipe(text):
    """Return a conda recipe as a dict."""
    return yaml.safe_load(jinja2.Template(text).render(PYTHON="python"))


def test_the_conda_recipe_and_the_citation_agree_with_the_project():
    recipe = read_recipe((CHECKOUT / "recipe" / "meta.yaml").read_text("utf-8"))
    python, *requirements = recipe["requirements"]["run"]
    plain = [r.replace("pytorch", "torch").replace(" ", "") for r in requirements]
    wanted = f"python {PROJECT['requires-python']}", PROJECT["dependencies"]
    assert (python, plain) == wanted
    about = recipe["about"]["home"], recipe["about"]["summary"]
    assert about == (PROJECT["urls"]["Documentation"], PROJECT["description"])
    citation = yaml.safe_load((CHECKOUT / "CITATION.cff").read_text("utf-8"))
    versions = recipe["package"]["version"], citation["version"]
    assert versions == (sklearn_calib.__version__,) * 2
    licenses = recipe["about"]["license"], citation["license"]
    assert licenses == (PROJECT["license"],) * 2
    builder = recipe["requirements"]["host"][-1].replace(" ", "")
    assert SETTINGS["build-system"]["requires"] == [builder]


@pytest.mark.parametrize("local", [False, True])
def test_the_conda_recipe_gets_the_hash_of_the_sdist(tmp_path, local):
    tool = runpy.run_path(str(CHECKOUT / "tools" / "conda_recipe.py"))
    sdist = tmp_path / f"sklearn_calib-{sklearn_calib.__version__}.tar.gz"
    sdist.write_bytes(b"an archive")
    source = read_recipe(tool["fill"](sdist, local=local))["source"]
    assert source["sha256"] == hashlib.sha256(b"an archive").hexdigest()
    assert source["url"].startswith("file:" if local else "https://pypi.org/")
    assert source["url"].endswith(f"/{sdist.name}")
    with pytest.raises(SystemExit, match="not the version"):
        tool["fill"](tmp_path / "sklearn_calib-9.9.9.tar.gz")


def test_addresses():
    assert {"Changelog", "Documentation", "Issues", "Source"} <= PROJECT["urls"].keys()


def test_a_version_is_released_under_its_tag_without_placeholders(tmp_path):
    tool = runpy.run_path(str(CHECKOUT / "tools" / "check_release.py"))
    version = sklearn_calib.__version__
    (tmp_path / "sklearn_calib").mkdir()
    (tmp_path / "recipe").mkdir()
    for name in [*tool["VERSIONS"], "pyproject.toml"]:
        text = (CHECKOUT / name).read_text(encoding="utf-8")
        text = text.replace("example.org", "calib.test")
        text = text.replace("not yet released", "2026-01-31")
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert list(tool["faults"](f"v{version}", tmp_path)) == []
    others = list(tool["faults"]("v9.9.9", tmp_path))
    assert len(others) == len(tool["VERSIONS"])
    shutil.copy(CHECKOUT / "pyproject.toml", tmp_path)
    has_placeholders = "example.org" in PROJECT["urls"]["Documentation"]
    assert bool(list(tool["faults"](f"v{version}", tmp_path))) == has_placeholders


def test_workflows_and_issue_templates_can_be_read():
    files = list((CHECKOUT / ".github").rglob("*.yml"))
    names = {path.stem for path in files if yaml.safe_load(path.read_text("utf-8"))}
    expected = {
        "bug_report",
        "ci",
        "config",
        "dependabot",
        "feature_request",
        "release",
    }
    if files:  # the sdist has no dotfiles
        assert names == expected


def test_workflows_pin_actions_and_keep_no_credentials():
    for path in (CHECKOUT / ".github" / "workflows").glob("*.yml"):
        text = path.read_text("utf-8")
        used = set(re.findall(r"uses: (.*)", text)) - {
            "pypa/gh-action-pypi-publish@release/v1"
        }
        assert used, path
        assert all(re.fullmatch(r".+@[0-9a-f]{40} # v[\d.]+", each) for each in used), (
            used
        )
        assert text.count("actions/checkout@") == text.count(
            "persist-credentials: false"
        )


def test_nox_runs_the_commands_of_the_table(monkeypatch):
    sessions, ran = {}, []
    nox = SimpleNamespace(
        options=SimpleNamespace(),
        session=lambda run, name, **_: sessions.update({name: run}),
    )
    monkeypatch.setitem(sys.modules, "nox", nox)
    runpy.run_path(str(CHECKOUT / "noxfile.py"))
    for run in sessions.values():
        run(SimpleNamespace(run=lambda *words: ran.append(words), posargs=["--more"]))
    assert {("ruff", "format"), ("python", "-m", "mypy", "--more")} < {*ran}
    scripts = [CHECKOUT / word for words in ran for word in words if word[-3:] == ".py"]
    assert all(script.is_file() for script in scripts)


def test_python_versions_agree():
    lowest = PROJECT["requires-python"].removeprefix(">=")
    assert sys.version_info[:2] >= as_numbers(lowest)
    assert f"Programming Language :: Python :: {lowest}" in PROJECT["classifiers"]


def is_own_text(path):
    """Return whether a file is text of ours, and not of a tool in the checkout."""
    folders = path.relative_to(CHECKOUT).parts[:-1]
    of_tools = re.compile(
        r"\.(?!ci$|github$)|.*(\.egg-info|_output)$"
        r"|(__pycache__|build|dist|generated)$"
    )
    suffixes = {".md", ".py", ".rst", ".toml", ".txt", ".yaml", ".yml", ""}
    return path.suffix in suffixes and not any(map(of_tools.match, folders))


def test_no_absolute_path_is_in_the_text():
    """Whoever clones the repository has other folders."""
    # A slash that starts a word, and is no part of a URL, a shebang or a fraction.
    pattern = re.compile(r"/(?<![\w.:/!})\]*~$\"]/)[a-z]+/\w.*")
    found = [
        f"{path.relative_to(CHECKOUT)}: {match.group()}"
        for path in CHECKOUT.rglob("*")
        if is_own_text(path) and path.is_file()
        for match in pattern.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not found
