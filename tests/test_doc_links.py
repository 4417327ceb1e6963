"""Estimators link to their pages on the site."""

import inspect
import tomllib
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

import sklearn_calib
from sklearn_calib import CalibratedClassifier, NeuralClassifier, TemperatureScaling
from sklearn_calib.calibrators import Calibrator, PerLabelCalibrator

PROJECT = (Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8")
SITE = tomllib.loads(PROJECT)["project"]["urls"]["Documentation"]
TOPICS = [name for _, name, _ in iter_modules(sklearn_calib.__path__) if name[0] != "_"]


def estimators():
    """Return the public estimators by their full names."""
    topics = (import_module(f"sklearn_calib.{topic}") for topic in TOPICS)
    public = {
        f"{t.__name__}.{name}": getattr(t, name) for t in topics for name in t.__all__
    }
    return {
        full: each
        for full, each in public.items()
        if inspect.isclass(each)
        and issubclass(each, ClassifierMixin)
        and not inspect.isabstract(each)
    }


def test_every_public_estimator_links_to_its_page():
    found = estimators()
    assert len(found) > 25
    for full, each in found.items():
        link = BaseEstimator._get_doc_link(object.__new__(each))
        assert link == f"{SITE}generated/api/{full}.html"


@pytest.mark.parametrize(
    "estimator",
    [
        TemperatureScaling(),
        NeuralClassifier(),
        PerLabelCalibrator(TemperatureScaling()),
        CalibratedClassifier(NeuralClassifier(), None),
    ],
)
def test_the_html_representation_has_the_link(estimator):
    assert estimator._get_doc_link() in estimator._repr_html_()


def test_subclasses_elsewhere_have_no_link():
    class Mine(TemperatureScaling):
        pass

    class Other(ClassifierMixin, BaseEstimator):
        pass

    assert Mine()._get_doc_link() == Other()._get_doc_link() == ""
    assert issubclass(Mine, Calibrator)
