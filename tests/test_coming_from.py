"""The page for users of other packages names what exists here, and what agrees."""

import re
from importlib import import_module
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import sklearn
import torch
from joblib import parallel_config
from sklearn.calibration import (
    CalibratedClassifierCV,
    CalibrationDisplay,
    calibration_curve,
)
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import RocCurveDisplay, classification_report, get_scorer
from sklearn.model_selection import ShuffleSplit, StratifiedKFold, cross_validate
from skorch import NeuralNetClassifier
from skorch.callbacks import EarlyStopping
from skorch.dataset import Dataset, ValidSplit
from skorch.helper import predefined_split
from torch import nn

import sklearn_calib.metrics
from sklearn_calib import (
    CalibratedClassifier,
    NeuralClassifier,
    PredictionSetClassifier,
    TemperatureScaling,
    displays,
)
from sklearn_calib.calibrators import IsotonicCalibration, PlattScaling, VennAbers
from sklearn_calib.evaluation import calibration_report
from sklearn_calib.losses import FocalLoss, get_loss_names

PAGE = Path(__file__).parent.parent / "doc" / "coming_from.md"
MODULES = ["calibrators", "deployment", "displays", "estimators", "evaluation"]
MODULES += ["metrics"]
FOREIGN = {"FrozenEstimator", "brier_score_loss", "log_loss", "compute"}
FOREIGN |= {"ShuffleSplit", "StratifiedKFold", "numpy"}

X, Y = make_classification(120, 4, flip_y=0.2, random_state=0)
X_NEW = X + 0.01  # Isotonic maps jump at the samples that they are fitted to.
HALF, REST = slice(0, None, 2), slice(1, None, 2)
FOLDS = StratifiedKFold(5)
CLASSIFIER = LogisticRegression().fit(X[HALF], Y[HALF])
FROZEN = FrozenEstimator(CLASSIFIER)


def table(section):
    """Return the cells of each row of a section's table."""
    text = PAGE.read_text("utf-8").partition(f"\n## {section}\n")[2]
    rows = re.findall(r"^\| (.*) \|$", text.partition("\n## ")[0], re.MULTILINE)
    return [row.split(" | ") for row in rows[1:]]


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
    options = "conformity_score|norm|reduction|scoring|strategy"
    text = re.sub(rf'({options})="\w+"', "", right_columns())
    named = set(re.findall(r'"([a-z_]+)"', text)) - {"neg_ece"}
    assert len(named) > 10
    assert named <= set(get_loss_names())


def proba(model, rows=slice(None)):
    return model.fit(X[rows], Y[rows]).predict_proba(X_NEW)


def scikit_learn():
    """Yield the left cell of each row with values of both sides."""
    cell = '`CalibratedClassifierCV(classifier, method="sigmoid")`'
    theirs = CalibratedClassifierCV(CLASSIFIER, method="sigmoid", cv=FOLDS)
    ours = CalibratedClassifier(CLASSIFIER, PlattScaling(), cv=FOLDS)
    yield cell, proba(theirs), proba(ours)

    cell = '`method="isotonic"`, `method="temperature"`'
    theirs = CalibratedClassifierCV(CLASSIFIER, method="isotonic", cv=FOLDS)
    ours = CalibratedClassifier(CLASSIFIER, IsotonicCalibration(), cv=FOLDS)
    yield cell, proba(theirs).min(), 0
    yield cell, proba(ours).min() > 0, True

    cell = '`CalibratedClassifierCV(FrozenEstimator(classifier))`, `cv="prefit"`'
    theirs = CalibratedClassifierCV(FROZEN, method="temperature")
    ours = CalibratedClassifier(FROZEN, TemperatureScaling())
    yield cell, proba(theirs, REST), proba(ours, REST)

    cell = "`ensemble=False`, `cv=5`, `n_jobs=2`"
    for options in [{"ensemble": True}, {"ensemble": False, "n_jobs": 2}]:
        theirs = CalibratedClassifierCV(CLASSIFIER, method="temperature", **options)
        ours = CalibratedClassifier(
            CLASSIFIER, TemperatureScaling(), cv=FOLDS, **options
        )
        with parallel_config(backend="threading"):
            yield cell, proba(theirs.set_params(cv=5)), proba(ours)

    cell = "`RocCurveDisplay.from_cv_results`"
    folds = {"cv": 2, "return_estimator": True, "return_indices": True}
    results = cross_validate(CLASSIFIER, X, Y, **folds)
    theirs = RocCurveDisplay.from_cv_results(results, X, Y)
    for name in re.findall(r"\w+Display", dict(table("scikit-learn"))[cell]):
        ours = getattr(displays, name).from_cv_results(results, X, Y)
        yield cell, len(theirs.line_), len(ours)

    cell = "`calibration_curve`, `CalibrationDisplay`"
    positive = CLASSIFIER.predict_proba(X)[:, 1]
    curve = calibration_curve(Y, positive, n_bins=5)
    drawn = CalibrationDisplay.from_predictions(Y, positive, n_bins=5)
    ours = displays.ReliabilityDisplay.from_predictions(Y, positive, n_bins=5).frame()
    yield cell, curve, (ours["prob_true"], ours["prob_pred"])
    yield cell, (drawn.prob_true, drawn.prob_pred), curve

    cell = '`scoring="neg_log_loss"`, `"neg_brier_score"`'
    for name in ("neg_log_loss", "neg_brier_score"):
        ours = sklearn_calib.metrics.get_scorer(name)
        yield cell, get_scorer(name)(CLASSIFIER, X, Y), ours(CLASSIFIER, X, Y)
    yield cell, "neg_ece" in sklearn_calib.metrics.get_scorer_names(), True

    cell = "`classification_report`"
    theirs = classification_report(Y, CLASSIFIER.predict(X), output_dict=True)
    ours = calibration_report(Y, CLASSIFIER.predict_proba(X))
    yield cell, [theirs[name]["support"] for name in "01"], ours["support"].iloc[:2]


class Plain(nn.Module):
    """A network without chance."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(X.shape[1], 2)
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(self, X):
        return self.layer(X)


class Softmaxed(Plain):
    def forward(self, X):
        return super().forward(X).softmax(dim=-1)


def skorch():
    """Yield the left cell of each row with values of both sides."""
    data = X.astype(np.float32)
    same = {"lr": 0.1, "max_epochs": 3, "batch_size": -1, "verbose": 0}
    same["optimizer"] = torch.optim.SGD

    cell = "`NeuralNetClassifier(MyModule)` with a softmax at the end"
    theirs = NeuralNetClassifier(Softmaxed, train_split=None, **same).fit(data, Y)
    ours = NeuralClassifier(Plain, **same).fit(data, Y)
    yield cell, theirs.predict_proba(data), ours.predict_proba(data)

    cell = "`criterion=FocalLoss, criterion__gamma=2.0`"
    focal = {"criterion": FocalLoss, "criterion__gamma": 2.0, "train_split": None}
    theirs = NeuralNetClassifier(Plain, **focal, **same).fit(data, Y)
    ours = NeuralClassifier(Plain, loss=FocalLoss, loss__gamma=2.0, **same)
    yield cell, theirs.forward(data), ours.fit(data, Y).forward(data)

    cell = "`train_split=ValidSplit(0.2, stratified=True)`"
    split = {"train_split": ValidSplit(0.2, stratified=True)}
    theirs = NeuralNetClassifier(Softmaxed, **split, **same).fit(data, Y)
    ours = NeuralClassifier(Plain, validation_fraction=0.2, **same).fit(data, Y)
    size = (-1, "batches", -1, "valid_batch_size")
    yield cell, theirs.history[size], ours.history[size]

    cell = "`callbacks=[EarlyStopping(load_best=True)]`"
    same |= {"lr": 1.0, "max_epochs": 30}
    same["train_split"] = predefined_split(Dataset(data[REST], Y[REST]))
    stop = EarlyStopping(load_best=True, patience=10)
    theirs = NeuralNetClassifier(Softmaxed, callbacks=[stop], **same)
    ours = NeuralClassifier(Plain, early_stopping=True, **same)
    theirs.fit(data[HALF], Y[HALF])
    ours.fit(data[HALF], Y[HALF])
    yield cell, len(theirs.history), len(ours.history)
    yield cell, theirs.predict_proba(data), ours.predict_proba(data)


def mapie_and_crepes():
    """Yield the left cell of each row with values of both sides."""
    mapie = pytest.importorskip("mapie.classification", reason='in the extra "test"')
    metrics = import_module("mapie.metrics.classification")
    crepes = pytest.importorskip("crepes", reason='in the extra "test"')
    halves = [(np.arange(len(X))[HALF], np.arange(len(X))[REST])]

    def calibrated(*, level=0.9, **options):
        return PredictionSetClassifier(FROZEN, confidence_level=level, **options).fit(
            X[REST], Y[REST]
        )

    cell = "MAPIE: `SplitConformalClassifier(classifier)`"
    model = mapie.SplitConformalClassifier(CLASSIFIER).conformalize(X[REST], Y[REST])
    theirs = model.predict_set(X_NEW)[1][..., 0]
    yield cell, theirs, calibrated().predict_set(X_NEW)

    cell = "`SplitConformalClassifier(classifier, prefit=False)`"
    model = mapie.SplitConformalClassifier(CLASSIFIER, prefit=False)
    model.fit(X[HALF], Y[HALF]).conformalize(X[REST], Y[REST])
    ours = PredictionSetClassifier(CLASSIFIER, cv=halves).fit(X, Y)
    yield cell, model.predict_set(X_NEW)[1][..., 0], ours.predict_set(X_NEW)

    cell = '`CrossConformalClassifier(classifier, cv=5)` with `agg_scores="crossval"`'
    model = mapie.CrossConformalClassifier(CLASSIFIER, cv=FOLDS)
    theirs = model.fit_conformalize(X, Y).predict_set(X_NEW, agg_scores="crossval")[1]
    ours = PredictionSetClassifier(CLASSIFIER, cv=FOLDS).fit(X, Y).predict_set(X_NEW)
    yield cell, theirs[..., 0] & ~ours, False

    cell = "`confidence_level`, `conformity_score`"
    options = {"confidence_level": 0.8, "conformity_score": "lac"}
    model = mapie.SplitConformalClassifier(CLASSIFIER, **options)
    theirs = model.conformalize(X[REST], Y[REST]).predict_set(X_NEW)[1]
    ours = calibrated(level=0.8, conformity_score="lac")
    yield cell, theirs[..., 0], ours.predict_set(X_NEW)

    cell = "`classification_coverage_score`, `classification_mean_width_score`"
    coverage = metrics.classification_coverage_score(Y, theirs)
    yield cell, coverage, sklearn_calib.metrics.set_coverage_score(Y, theirs[..., 0])
    width = metrics.classification_mean_width_score(theirs)
    yield cell, width, sklearn_calib.metrics.mean_set_size_loss(Y, theirs[..., 0])

    cell = "crepes: `WrapClassifier(classifier).calibrate(X, y)`"
    model = crepes.WrapClassifier(CLASSIFIER)
    model.calibrate(X[REST], Y[REST])
    ours = calibrated().predict_pvalue(X_NEW)
    yield cell, model.predict_p(X_NEW, smoothing=False), ours

    cell = "`class_cond=True`"
    model.calibrate(X[REST], Y[REST], class_cond=True)
    ours = calibrated(level=0.95, per_class=True)
    p_values = model.predict_p(X_NEW, smoothing=False)
    yield cell, p_values, ours.predict_pvalue(X_NEW)

    cell = "`predict_p(X, smoothing=False)`, `predict_set(X)`"
    sets = model.predict_set(X_NEW, smoothing=False)
    yield cell, [[k in row for k in (0, 1)] for row in sets], ours.predict_set(X_NEW)


def venn_abers():
    """Yield the left cell of each row with values of both sides."""
    package = pytest.importorskip("venn_abers", reason='in the extra "test"')
    p_cal, p_test = map(CLASSIFIER.predict_proba, (X[REST], X_NEW))

    cell = (
        "`VennAbers().fit(p_cal, y_cal)`, `VennAbersCalibrator()"
        ".predict_proba(p_cal=..., y_cal=..., p_test=...)`"
    )
    ours = VennAbers().fit(p_cal, Y[REST]).predict_proba(p_test)
    model = package.VennAbers().fit(p_cal, Y[REST])
    yield cell, model.predict_proba(p_test)[0], ours
    given = {"p_cal": p_cal, "y_cal": Y[REST], "p_test": p_test}
    yield cell, package.VennAbersCalibrator().predict_proba(**given), ours

    cell = "`VennAbersCalibrator(classifier, inductive=True, cal_size=0.3)`"
    split = ShuffleSplit(1, test_size=0.3, random_state=0)
    theirs = package.VennAbersCalibrator(CLASSIFIER, cal_size=0.3, random_state=0)
    ours = CalibratedClassifier(CLASSIFIER, VennAbers(), cv=split)
    yield cell, proba(theirs), proba(ours)

    cell = "`VennAbersCalibrator(classifier, inductive=False, n_splits=5)`"
    options = {"inductive": False, "n_splits": 5, "shuffle": False}
    theirs = package.VennAbersCalibrator(CLASSIFIER, **options)
    ours = CalibratedClassifier(CLASSIFIER, VennAbers(), cv=FOLDS)
    differences = np.abs(proba(theirs) - proba(ours))
    yield cell, (differences.max() < 0.1, differences.max() > 0), True

    cell = "`p0_p1_output=True`"
    _, (values,) = theirs.predict_proba(X_NEW, p0_p1_output=True)
    means = values.reshape(len(X), 2, 5).mean(axis=2)
    yield cell, means, ours.predict_interval(X_NEW)[:, 1]


OLD = tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("section", "rows"),
    [
        pytest.param(
            "scikit-learn",
            scikit_learn,
            marks=pytest.mark.skipif(OLD, reason="temperature scaling is of 1.8"),
        ),
        ("skorch", skorch),
        ("MAPIE and crepes", mapie_and_crepes),
        ("venn-abers", venn_abers),
    ],
)
def test_both_columns_agree(section, rows):
    cells = []
    for cell, theirs, ours in rows():
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-6, err_msg=cell)
        cells.append(cell)
    plt.close("all")
    assert [*dict.fromkeys(cells)] == [left for left, _ in table(section)]


def test_the_contents_list_it():
    assert "\ncoming_from\n" in (PAGE.parent / "index.md").read_text("utf-8")


@pytest.mark.parametrize("term", ["Confidence", "Proper scoring rule", "AURC"])
def test_the_glossary_has_a_term(term):
    lines = (PAGE.parent / "glossary.md").read_text("utf-8").splitlines()
    assert term in lines
