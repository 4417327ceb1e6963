"""The page for users of other packages names what exists here."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from sklearn_calib.losses import get_loss_names

PAGE = Path(__file__).parent.parent / "doc" / "coming_from.md"
MODULES = ["calibrators", "deployment", "displays", "estimators", "evaluation"]
MODULES += ["metrics"]
FOREIGN = {"FrozenEstimator", "brier_score_loss", "log_loss", "compute"}
FOREIGN |= {"ShuffleSplit", "StratifiedKFold", "numpy"}


def right_columns():
    """Return the last cell of every row of the page's tables."""
    rows = re.findall(r"^\| (?!---).*\|$", PAGE.read_text("utf-8"), re.MULTILINE)
    return " ".join(row.strip("|").split("|")[-1] for row in rows)


def test_functions_and_classes_exist():
    public = set()
    for module in MODULES:
        public |= set(import_module(f"sklearn_calib.{module}").__all__)
    named = set(re.findall(r"`([A-Za-z_]+)[`(.]", right_columns()))
    named |= set(re.findall(r"\b([A-Z][A-Za-z]+)\(", right_columns()))
    named -= {"sklearn", "sklearn_calib"}
    assert len(named) > 30
    assert named - public == FOREIGN


def test_losses_exist():
    text = re.sub(r'(strategy|norm|reduction|scoring)="\w+"', "", right_columns())
    named = set(re.findall(r'"([a-z_]+)"', text)) - {"neg_ece"}
    assert len(named) > 10
    assert named <= set(get_loss_names())


def test_the_contents_list_it():
    assert "\ncoming_from\n" in (PAGE.parent / "index.md").read_text("utf-8")


@pytest.mark.parametrize("term", ["Confidence", "Proper scoring rule", "AURC"])
def test_the_glossary_has_a_term(term):
    lines = (PAGE.parent / "glossary.md").read_text("utf-8").splitlines()
    assert term in lines
