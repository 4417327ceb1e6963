"""Docstrings are true: parameters as in the signature, examples that run."""

import doctest
import inspect
import linecache
import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pytest

import sklearn_calib

plt = pytest.importorskip("matplotlib.pyplot", reason="the examples draw")

MODULES = [
    module.name
    for module in pkgutil.walk_packages(sklearn_calib.__path__, "sklearn_calib.")
]
TOPICS = [name for name in MODULES if re.fullmatch(r"sklearn_calib\.[a-z]\w*", name)]
PUBLIC = {
    f"{topic}.{name}": getattr(import_module(topic), name)
    for topic in TOPICS
    for name in import_module(topic).__all__
}
PUBLIC = {name: thing for name, thing in PUBLIC.items() if callable(thing)}
METHODS = {
    f"{name}.{attribute}": getattr(thing, attribute)
    for name, thing in PUBLIC.items()
    if inspect.isclass(thing)
    for attribute, method in vars(thing).items()
    if not attribute.startswith("_") and callable(getattr(thing, attribute))
}

WITH_EXAMPLES = [
    name
    for name in MODULES
    if ">>> " in Path(import_module(name).__file__).read_text("utf-8")
]
# Modules whose examples need a package that is not a dependency.
OPTIONAL = {"sklearn_calib.calibrators._combined.boosting": "lightgbm"}

all_public = pytest.mark.parametrize("name", PUBLIC)
all_methods = pytest.mark.parametrize("name", METHODS)


def sections(docstring):
    """Return numpydoc's sections as a dict of title to text."""
    parts = re.split(r"^([A-Z][\w ]+)\n-{3,}\n", docstring, flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def documented_parameters(docstring):
    """Return the names on the left of the colons, in order."""
    found = sections(docstring)
    text = found.get("Parameters", "") + found.get("Other Parameters", "")
    lines = re.findall(r"^([*\w][*\w, ]*?)(?: :.*)?$", text, flags=re.MULTILINE)
    return [name.strip("* ") for line in lines for name in line.split(",")]


def parameters(thing):
    """Return the names of the parameters that a caller gives, in order."""
    names = list(inspect.signature(thing).parameters)
    return [name for name in names if name not in {"self", "cls"}]


@all_public
def test_public_object(name):
    docstring = inspect.getdoc(PUBLIC[name])
    assert docstring == inspect.cleandoc(PUBLIC[name].__doc__), "it is inherited"
    assert docstring.splitlines()[0].endswith("."), "the summary is one sentence"
    assert documented_parameters(docstring) == parameters(PUBLIC[name])
    assert "Examples" in sections(docstring)
    if not inspect.isclass(PUBLIC[name]):
        assert "Returns" in sections(docstring)


@all_methods
def test_public_method(name):
    """An inherited docstring will do where the signature is the parent's."""
    docstring = inspect.getdoc(METHODS[name])
    assert docstring, f"{name} has no docstring"
    assert documented_parameters(docstring) in ([], parameters(METHODS[name]))


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_run(name):
    if name in OPTIONAL:
        pytest.importorskip(OPTIONAL[name], reason=f"for the example of {name}")
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    # For each docstring, doctest looks for changes of the files that are in there.
    linecache.clearcache()
    failures, _ = doctest.testmod(import_module(name), optionflags=flags)
    plt.close("all")
    assert not failures, "see the captured output"
