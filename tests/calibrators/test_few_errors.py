"""Calibrators count the misclassified samples in fit, and warn of too few."""

import csv
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from sklearn_calib import CalibratedClassifier, TemperatureScaling
from sklearn_calib.calibrators import (
    Calibrator,
    FocalPosterior,
    IsotonicCalibration,
    PerGroupCalibrator,
    PerLabelCalibrator,
    PlattScaling,
    StructuredMatrixScaling,
    TemperatureAccumulator,
    VectorScaling,
    get_calibrator,
)
from sklearn_calib.persistence import from_dict, to_dict

EXCUSED = {}
# The page has rows for these, which are not the defaults.
AUTHORS = {
    "joint_beta": {"penalty": "none"},
    "structured_matrix": {"lambd": 1.0},
    "structured_vector": {"lambd": 1.0},
}
# Other tests check the warnings of bounds and of the end of a grid.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FEW = "needs about .* misclassified samples for a reliable fit"


@pytest.fixture(scope="module")
def with_errors():
    """Return a function that makes samples, some of them misclassified."""

    def make(n_errors, n_classes=2, n_samples=1000):
        logits = 2 * np.random.default_rng(0).normal(size=(n_samples, n_classes))
        order = logits.argsort(axis=1)
        y = order[:, -1].copy()
        y[:n_errors] = order[:n_errors, -2]
        return logits, y

    return make


def warnings_of_few(fit, *args, **params):
    """Return the texts of the warnings of few misclassified samples."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(*args, **params)
    texts = [
        str(warning.message) for warning in caught if warning.category is UserWarning
    ]
    return [text for text in texts if re.search(FEW, text)]


@pytest.mark.parametrize("from_logits", [False, True])
def test_errors_are_counted(calibrator, from_logits, with_errors, fresh, monkeypatch):
    logits, y = with_errors(37, 3, 80)
    X = logits if from_logits else softmax(logits, axis=1)
    fitted = fresh(calibrator, from_logits=from_logits).fit(X, y)
    assert fitted.n_errors_ == 37
    monkeypatch.setattr(type(calibrator), "_fit", lambda *_: None)
    weight = np.where(np.arange(80) < 30, 2, 0.5)
    fitted.fit(X, y, sample_weight=weight)
    assert fitted.n_errors_ == 30 * 2 + 7 * 0.5


def test_errors_of_one_column_and_of_ties():
    calibrator = TemperatureScaling()
    assert calibrator.fit([0.9, 0.2, 0.4, 0.8], [1, 0, 1, 0]).n_errors_ == 2
    # The first class of a tie is predicted.
    X = [[0.5, 0.5], [0.5, 0.5], [0.4, 0.6], [0.3, 0.7]]
    assert calibrator.fit(X, ["a", "b", "b", "a"]).n_errors_ == 2


def test_warns_below_the_errors_needed_and_not_from_them_on(
    calibrator, with_errors, fresh
):
    needed, _ = calibrator._errors_needed
    name = type(calibrator).__name__
    for n_errors in [0, needed - 1] if needed else []:
        data = _proba(with_errors(n_errors, n_samples=300))
        (text,) = warnings_of_few(fresh(calibrator).fit, *data)
        assert text.startswith(f"{name} needs about {needed} misclassified samples ")
        assert f", got {n_errors}, and " in text
        assert ("a calibrator that needs fewer, " in text) == (needed > 10)
    data = _proba(with_errors(needed, n_samples=300))
    assert not warnings_of_few(fresh(calibrator).fit, *data)


def _proba(data):
    return softmax(data[0], axis=1), data[1]


@pytest.mark.parametrize(
    ("calibrator_", "needed"),
    [(TemperatureScaling(), 10), (VectorScaling(), 30), (IsotonicCalibration(), 300)],
)
def test_needs_more_errors_for_more_classes_unless_they_share(
    calibrator_, needed, with_errors
):
    (text,) = warnings_of_few(calibrator_.fit, *_proba(with_errors(needed - 1, 4)))
    assert f"about {needed} misclassified samples" in text
    assert not warnings_of_few(calibrator_.fit, *_proba(with_errors(needed, 4)))


@pytest.mark.parametrize("scale", [1e-100, 1 / 3000, 2, 1000])
def test_the_scale_of_weights_does_not_matter(
    calibrator, scale, with_errors, fresh, monkeypatch
):
    needed, _ = calibrator._errors_needed
    monkeypatch.setattr(type(calibrator), "_fit", lambda *_: None)
    weight = np.full(1000, scale)
    for n_errors in [needed - 1, needed] if needed else []:
        X, y = _proba(with_errors(n_errors))
        texts = warnings_of_few(fresh(calibrator).fit, X, y, weight)
        assert len(texts) == (n_errors < needed)
        assert all(f", got {n_errors}, and " in text for text in texts)


def ways_to_fit(X, y, weight):
    """Yield functions that fit temperature scaling to logits of two classes."""
    scaling = TemperatureScaling(from_logits=True)
    yield lambda: scaling.fit(X, y, weight)
    parts = [(X[k::2], y[k::2], weight[k::2]) for k in range(2)]
    yield lambda: scaling.fit(batches=lambda: parts, labels=[0, 1])
    sums = TemperatureAccumulator(labels=[0, 1], from_logits=True)
    for part in parts:
        sums.update(*part)
    yield sums.calibrator
    yield from_dict(to_dict(sums)).calibrator
    groups = PerGroupCalibrator(TemperatureScaling(), from_logits=True)
    yield lambda: groups.fit(X, y, weight, groups=np.arange(len(y)) % 2)
    odds, target = (X[:, 1:] - X[:, :1]) * [1, 1], np.column_stack([y, y])
    yield lambda: PerLabelCalibrator(scaling).fit(odds, target, weight)
    frozen = FrozenEstimator(Identity().fit(X, y))
    for ensemble in (False, True):
        folds = CalibratedClassifier(frozen, scaling, ensemble=ensemble, cv=2)
        yield lambda folds=folds: folds.fit(X, y, sample_weight=weight)


class Identity(ClassifierMixin, BaseEstimator):
    """Classifier whose data are its logits."""

    decision_function_is_logits = True

    def fit(self, _, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return X[:, 1] - X[:, 0]


@pytest.mark.parametrize(
    ("weight", "found"),
    [
        (np.full(1000, 1 / 3000), "8"),
        (np.full(1000, 1000.0), "8"),
        (np.where(np.arange(1000) < 8, 0.25, 0.5), "4"),
        (np.where(np.arange(1000) < 4, 0, 1.0), "4"),
        (np.where(np.arange(1000) < 4, 0.0, 1 / 996), "4"),
    ],
    ids=["small", "large", "unequal", "zeros", "small or zero"],
)
def test_every_way_to_fit_counts_alike(weight, found, with_errors):
    logits, y = with_errors(8)
    for number, fit in enumerate(ways_to_fit(logits, y, weight)):
        texts = warnings_of_few(fit)
        assert len(texts) == 1, number
        assert f", got {found}" in texts[0], number


def test_a_map_that_is_known_needs_no_errors(with_errors):
    assert not warnings_of_few(FocalPosterior(gamma=2).fit, *_proba(with_errors(0)))
    assert warnings_of_few(FocalPosterior().fit, *_proba(with_errors(0)))


@pytest.mark.parametrize("ensemble", [True, False])
def test_folds_count_together_and_warn_once(ensemble):
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    X = rng.normal(size=(200, 1)) + 2 * y[:, None]
    params = {"ensemble": ensemble, "cv": StratifiedKFold(5)}
    model = CalibratedClassifier(GaussianNB(), TemperatureScaling(), **params)
    assert not warnings_of_few(model.fit, X, y)
    errors = [pair.calibrator.n_errors_ for pair in model.calibrated_classifiers_]
    assert len(errors) == (5 if ensemble else 1)
    assert min(errors) < 10 < sum(errors) or not ensemble
    model.set_params(calibrator=IsotonicCalibration())
    (text,) = warnings_of_few(model.fit, X, y)
    assert "needs about 100 misclassified samples" in text
    assert f", got {sum(errors):g}, and " in text


def test_a_classifier_as_calibrator_needs_none():
    X, y = np.arange(20.0)[:, None], np.arange(20) // 10
    model = CalibratedClassifier(GaussianNB(), DummyClassifier(), cv=2)
    assert not warnings_of_few(model.fit, X, y)


def test_one_warning_for_all_labels(with_errors):
    logits, y = with_errors(15)
    few = with_errors(3)[1]
    odds = logits[:, 1] - logits[:, 0]
    calibrator = PerLabelCalibrator(TemperatureScaling(from_logits=True))
    (text,) = warnings_of_few(
        calibrator.fit, np.column_stack([odds] * 3), np.column_stack([y, few, few])
    )
    assert ", got 3 for label 1, and " in text


def test_the_warning_says_which_errors_of_margins_are_counted():
    """Those of one class against the others, in the mean of the repeats."""
    rng = np.random.default_rng(0)
    y = np.array(["a", "b", "c"])[np.arange(90) % 3]
    X = rng.normal(size=(90, 2)) + 2 * np.eye(3)[np.arange(90) % 3, :2]
    model = CalibratedClassifier(LinearSVC(random_state=0), PlattScaling(), cv=2)
    (text,) = warnings_of_few(model.fit, X, y)
    counted = [
        [calibrator.n_errors_ for calibrator in pair.calibrator.per_label_.calibrators_]
        for pair in model.calibrated_classifiers_[::2]
    ]
    fewest = np.mean(counted, axis=0)
    name = f"class {model.classes_[fewest.argmin()]} against the others"
    count = f"{fewest.min():g}, counting each sample once for {name}"
    assert text.startswith("PlattScaling needs about 50 misclassified samples ")
    assert f", got {count}, and " in text


def test_every_calibrator_says_how_many_errors_it_needs(calibrator):
    assert "_errors_needed" in vars(type(calibrator))
    assert not Calibrator._errors_needed.fget(calibrator)[0]


def test_the_table_says_how_many_errors_each_needs():
    tables = Path(__file__).parents[2] / "benchmarks" / "studies" / "tables"
    with (tables / "calibration_size_cost.csv").open(encoding="utf-8") as file:
        rows = [(row["calibrator"], row["needs"]) for row in csv.DictReader(file)]
    rows = [row for row in rows if "empirical Bayes" not in row[0]]
    assert len(rows) == 25
    for name, printed in rows:
        number, power = get_calibrator(name)(**AUTHORS.get(name, {}))._errors_needed
        needed = [round(number * (k - 1) ** power) for k in (2, 10, 100)]
        numbers = [int(n.replace(",", "")) for n in printed.split(", ")]
        assert numbers == (needed if power else needed[:1]), name


def test_the_warning_is_an_error_where_warnings_are(with_errors):
    """A failed fit leaves the calibrator unchanged."""
    calibrator = StructuredMatrixScaling()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        with pytest.raises(UserWarning, match=FEW):
            calibrator.fit(*_proba(with_errors(1)))
    assert not hasattr(calibrator, "n_errors_")
