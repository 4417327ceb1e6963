"""Scorer names of this package are accepted by all functions of scikit-learn."""

import ast
import importlib
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import MappingProxyType
from unittest.mock import patch

import pytest
import sklearn.metrics
from sklearn.dummy import DummyClassifier
from sklearn.metrics import _scorer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import SVC

from sklearn_calib._sklearn import scorer_names as scorer_names
from sklearn_calib.metrics import get_scorer, get_scorer_names

# What is imported before this package for "theirs first". For "ours first", `start`
# forks a process that has imported this package before these modules.
THEIRS = (
    "sklearn.experimental.enable_halving_search_cv, sklearn.ensemble, "
    "sklearn.feature_selection, sklearn.inspection, sklearn.linear_model"
)
SCRIPT = Path(__file__).with_name("scorer_entry_points.py")
ENTRY_POINTS = [
    node.name
    for node in ast.parse(SCRIPT.read_text("utf-8")).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("run_")
]


@pytest.fixture(scope="module")
def failures(start, end, tmp_path_factory):
    """Return a function for what fails in another process; it runs the script once."""

    @cache
    def run(order):
        path = str(tmp_path_factory.mktemp("scorers") / "failures.json")
        if order == "ours first":
            assert end(start(SCRIPT, path)) == 0
        else:
            given = {"ARGUMENTS": [path]}
            code = f"import {THEIRS}, runpy; runpy.run_path({str(SCRIPT)!r}, {given})"
            subprocess.run([sys.executable, "-c", code], check=True)
        return json.loads(Path(path).read_text("utf-8"))

    return run


@pytest.mark.parametrize(
    "order", ["ours first", pytest.param("theirs first", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_entry_point(entry_point, order, failures):
    """In another process, in both orders of import."""
    failure = failures(order)[entry_point]
    assert not failure, failure


def register_again():
    ours = {name: get_scorer(name) for name in get_scorer_names()}
    scorer_names.register_scorers(ours)


def test_again_does_no_harm():
    before = dict(_scorer._SCORERS)
    register_again()
    assert before == _scorer._SCORERS
    assert set(get_scorer_names()) <= set(sklearn.metrics.get_scorer_names())


def test_a_name_is_never_overwritten(monkeypatch):
    theirs = get_scorer("accuracy")
    monkeypatch.setitem(_scorer._SCORERS, "neg_ece", theirs)
    register_again()
    assert _scorer._SCORERS["neg_ece"] is theirs


def test_names_of_others_are_still_refused():
    for scoring in ("neg_ecee", "neg_smooth"):
        with pytest.raises(ValueError, match="'scoring' parameter"):
            cross_val_score(SVC(), [[0], [1]], [0, 1], scoring=scoring)
        with pytest.raises(ValueError, match="'scoring' parameter"):
            GridSearchCV(SVC(), {}, scoring=scoring).fit([[0], [1]], [0, 1])


@pytest.mark.parametrize("moved", ["table", "copies"])
def test_future_scikit_learn(monkeypatch, moved):
    """The error says what to do if scikit-learn's private names have moved."""
    if moved == "table":
        monkeypatch.delattr(_scorer, "_SCORERS")
    else:
        monkeypatch.setattr(scorer_names, "CONSTRAINTS", ("_elsewhere",))
    with pytest.raises(
        RuntimeError,
        match=r"cannot be added to scikit-learn .* Pass scoring=sklearn_calib",
    ):
        register_again()


def test_only_strings_stop_working_where_scikit_learn_has_moved_them(monkeypatch):
    theirs = {**_scorer._SCORERS}
    for name in get_scorer_names():
        del theirs[name]
    monkeypatch.setattr(_scorer, "_SCORERS", MappingProxyType(theirs))
    with patch.dict(sys.modules):
        for name in [name for name in sys.modules if name.startswith("sklearn_calib")]:
            del sys.modules[name]
        with pytest.warns(RuntimeWarning, match=r"Pass scoring=sklearn_calib\.metrics"):
            again = importlib.import_module("sklearn_calib")
        assert repr(again.TemperatureScaling()) == "TemperatureScaling()"
        y = [0, 1, 0, 1]
        scores = {
            name: again.metrics.get_scorer(name) for name in ("neg_ece", "accuracy")
        }
        search = GridSearchCV(DummyClassifier(), {}, scoring=scores, refit=False, cv=2)
        assert search.fit(y, y).cv_results_["mean_test_neg_ece"] == 0
    with pytest.raises(ValueError, match="'neg_ece' is not a valid scoring value"):
        cross_val_score(DummyClassifier(), y, y, scoring="neg_ece", cv=2)
