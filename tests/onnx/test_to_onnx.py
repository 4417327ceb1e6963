"""`to_onnx` for networks, calibrated classifiers and pipelines, and its errors."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

import sklearn_calib
from sklearn_calib import (
    CalibratedClassifier,
    NeuralClassifier,
    PredictionSetClassifier,
    SelectiveClassifier,
    TemperatureScaling,
)
from sklearn_calib.calibrators import (
    IsotonicCalibration,
    PerLabelCalibrator,
    PlattScaling,
    VennAbers,
)
from sklearn_calib.deployment import PriorShiftClassifier
from sklearn_calib.onnx import to_onnx

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


TWO_FOLDS = {"cv": 2, "n_repeats": 1}


@pytest.mark.parametrize("ensemble", [True, False])
@pytest.mark.parametrize("response_method", ["decision_function", "predict_proba"])
@pytest.mark.parametrize(
    "calibrator",
    [
        "temperature",
        None,
        *(
            pytest.param(calibrator, marks=pytest.mark.slow)
            for calibrator in (PlattScaling(), LogisticRegression())
        ),
    ],
)
def test_calibrated_pipeline(
    data, largest_difference, ensemble, response_method, calibrator
):
    """With a Pipeline, skl2onnx calibrates the wrong values (its issue 1246)."""
    X, y = data
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    options = {"ensemble": ensemble, "response_method": response_method}
    options |= {"cv": 2, "n_repeats": 1}
    model = CalibratedClassifier(pipeline, calibrator, **options).fit(X, y)
    assert largest_difference(model, X) < 1e-9
    assert largest_difference(model, X.astype(np.float32)) < 1e-5


def test_wrong_export_by_skl2onnx_is_not_returned(data, largest_difference):
    """Its CalibratedClassifierCV of a Pipeline is wrong by 0.45 (its issue 1246)."""
    X, y = data
    pipeline = make_pipeline(FunctionTransformer(), LogisticRegression())
    model = CalibratedClassifierCV(pipeline, method="sigmoid", cv=2).fit(X, y)
    message = ""
    try:
        to_onnx(model, X)
    except ValueError as error:
        message = str(error)
    # A later version of skl2onnx may be right.
    is_refused = (
        "must return the probabilities of predict_proba, got a difference" in message
    )
    assert is_refused or largest_difference(model, X) < 1e-4


def test_other_classifiers(data, largest_difference):
    X, y = data
    single = X.astype(np.float32)
    forest = RandomForestClassifier(3, random_state=0)
    calibrated = CalibratedClassifier(forest, "temperature", **TWO_FOLDS).fit(single, y)
    assert largest_difference(calibrated, single) < 1e-5
    grid = {"calibrator": [IsotonicCalibration(), PlattScaling()]}
    model = CalibratedClassifier(GaussianNB(), None, **TWO_FOLDS)
    search = GridSearchCV(model, grid, cv=2)
    assert largest_difference(search.fit(X, y), X) < 1e-9
    parts = [("a", CalibratedClassifier(GaussianNB(), PlattScaling(), **TWO_FOLDS))]
    parts += [("b", LogisticRegression())]
    voting = VotingClassifier(parts, voting="soft", flatten_transform=False)
    assert largest_difference(voting.fit(X, y), X) < 1e-9


def test_a_calibrated_classifier_as_calibrator(data, largest_difference):
    X, y = data
    inner = CalibratedClassifier(LogisticRegression(), "temperature", **TWO_FOLDS)
    model = CalibratedClassifier(GaussianNB(), inner, **TWO_FOLDS).fit(X, y)
    assert largest_difference(model, X) < 1e-9


def test_trees_with_missing_values(largest_difference):
    """The threshold between missing and other values is infinite."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)).astype(np.float32)
    X[rng.random(X.shape) < 0.3] = np.nan
    y = (np.isnan(X[:, 0]) ^ (rng.random(200) < 0.1)).astype(int)
    trees = HistGradientBoostingClassifier(max_iter=2, max_depth=3).fit(X, y)
    (first,), *_ = trees._predictors
    assert np.isinf(first.nodes["num_threshold"]).any()
    assert largest_difference(trees, X) < 1e-5
    with pytest.raises(ValueError, match=r"Convert X to float32 with X\.astype"):
        to_onnx(trees, X.astype(np.float64))
    options = {"calibrator": PlattScaling(), "cv": 2, "n_repeats": 1}
    for dtype in (np.float32, np.float64):
        model = CalibratedClassifier(trees, **options).fit(X.astype(dtype), y)
        assert largest_difference(model, X.astype(dtype)) < 1e-5


def test_columns_of_a_data_frame(run_onnx):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=200), "age": rng.normal(size=200)})
    X["unused"] = 1
    X["city"] = np.array(["Rome", "Oslo", "Bern"])[rng.integers(3, size=200)]
    y = (X["size"] + (X["city"] == "Rome") + rng.logistic(size=200) > 0).to_numpy()
    columns = make_column_transformer(
        (StandardScaler(), ["size", "age"]), (OneHotEncoder(), ["city"])
    )
    pipeline = make_pipeline(columns, LogisticRegression())
    model = CalibratedClassifier(pipeline, "temperature", **TWO_FOLDS).fit(X, y)
    label, proba = run_onnx(model, X, atol=1e-5)
    np.testing.assert_allclose(proba, model.predict_proba(X), atol=1e-5)
    np.testing.assert_array_equal(label, model.predict(X))


def test_data_frame_for_an_estimator_of_one_array(data):
    X, y = data
    frame = pd.DataFrame(X).add_prefix("x")
    model = CalibratedClassifier(LogisticRegression(), PlattScaling(), **TWO_FOLDS)
    with pytest.raises(ValueError, match=r"numbers, try X\.to_numpy\(\)"):
        to_onnx(model.fit(frame, y), frame)


def test_columns_without_a_float64_version_are_named(run_onnx):
    X = pd.DataFrame({"age": [0.5, np.nan, 2, 3] * 9, "city": ["Rome", "Oslo"] * 18})
    columns = make_column_transformer(
        (SimpleImputer(), ["age"]), (OneHotEncoder(), ["city"])
    )
    model = make_pipeline(columns, LogisticRegression()).fit(X, [0, 1, 1, 0] * 9)
    message = r"Convert the columns \['age'\] to float32 .* such as SimpleImputer"
    with pytest.raises(ValueError, match=message):
        to_onnx(model, X)
    single = X.astype({"age": "float32"})
    _, proba = run_onnx(model, single)
    np.testing.assert_allclose(proba, model.predict_proba(single), atol=1e-5)


@pytest.mark.parametrize(
    ("wrap", "name"),
    [
        (
            lambda net: CalibratedClassifier(net, TemperatureScaling(), **TWO_FOLDS),
            "TemperatureScaling",
        ),
        (lambda net: CalibratedClassifier(net, "platt", **TWO_FOLDS), "PlattScaling"),
        (lambda net: CalibratedClassifier(net, None), None),
        (lambda net: net, None),
        (lambda _: PlattScaling(from_logits=True), "PlattScaling"),
    ],
)
def test_metadata(wrap, name):
    X = np.random.default_rng(0).normal(size=(90, 2))
    y = np.where(X[:, 0] + X[::-1, 1] > 0, "ja", "nein")
    proto = to_onnx(wrap(LogisticRegression()).fit(X, y), X)
    found = {each.key: each.value for each in proto.metadata_props}
    assert found.pop("sklearn_calib.version") == sklearn_calib.__version__
    assert json.loads(found.pop("sklearn_calib.classes")) == ["ja", "nein"]
    assert found == ({"sklearn_calib.calibrator": name} if name else {})


def test_texts(run_onnx):
    X = np.array(["a good film", "a bad film", "nice and good", "bad"] * 20)
    # For lower case, onnxruntime needs the locale en_US.UTF-8.
    words = TfidfVectorizer(lowercase=False)
    pipeline = make_pipeline(words, "passthrough", LogisticRegression())
    model = CalibratedClassifier(pipeline, "temperature", **TWO_FOLDS)
    model.fit(X, [1, 0, 1, 0] * 20)
    label, proba = run_onnx(model, X, atol=1e-5)
    np.testing.assert_allclose(proba, model.predict_proba(X), atol=1e-5)
    np.testing.assert_array_equal(label, model.predict(X))


def test_predict_logits_is_refused(data):
    X, y = data

    class WithLogits(LogisticRegression):
        def predict_logits(self, X):
            return 2 * self.decision_function(X)

    frozen = FrozenEstimator(WithLogits().fit(X, y))
    model = CalibratedClassifier(
        frozen, "temperature", response_method="predict_logits"
    )
    with pytest.raises(ValueError, match="'predict_logits' cannot be converted"):
        to_onnx(model.fit(X, y), X)


@pytest.mark.parametrize("margins", [LinearSVC(), SVC()])
def test_margins(data, largest_difference, margins):
    X, y = data
    options = {"response_method": "decision_function", "cv": 2, "n_repeats": 1}
    model = CalibratedClassifier(margins, PlattScaling(), **options).fit(X, y)
    assert largest_difference(model, X) < 1e-5


@pytest.mark.parametrize(
    "calibrator",
    [
        "auto",
        GaussianNB(),
        *(
            pytest.param(calibrator, marks=pytest.mark.slow)
            for calibrator in (PlattScaling(), IsotonicCalibration(), VennAbers())
        ),
    ],
)
@pytest.mark.parametrize("ensemble", [True, False])
def test_margins_without_probabilities(data, largest_difference, calibrator, ensemble):
    """They are scaled, and calibrated separately for each class, except by "auto"."""
    X, y = data
    options = {"ensemble": ensemble, "cv": 2, "n_repeats": 1}
    model = CalibratedClassifier(LinearSVC(), calibrator, **options)
    assert largest_difference(model.fit(X, y), X) < 1e-9


@pytest.mark.filterwarnings("ignore:y contains no samples")
@pytest.mark.parametrize("n_present", [2, 3])
@pytest.mark.parametrize(
    ("classifier", "calibrator"),
    [
        (GaussianNB(), None),
        (GaussianNB(), IsotonicCalibration()),
        (GaussianNB(), LogisticRegression()),
        (LogisticRegression(), TemperatureScaling()),
        (LogisticRegression(), LogisticRegression()),
        (LinearSVC(), PlattScaling()),
    ],
)
def test_classes_that_are_absent_from_a_fold(
    n_present, classifier, calibrator, largest_difference
):
    """The classifier of a fold has fewer columns than the calibrated model."""
    X, y = make_classification(
        200, 6, n_informative=6, n_redundant=0, n_classes=4, random_state=0
    )
    is_present = np.isin(y, [0, 2, 1][:n_present])
    few, rest = np.flatnonzero(is_present), np.arange(200)
    folds = [(few, rest), (rest, few)]
    model = CalibratedClassifier(classifier, calibrator, cv=folds, ensemble=True)
    model.fit(X, np.array(["c", "a", "d", "b"])[y])
    assert len(model.calibrated_classifiers_[0].estimator.classes_) == n_present
    assert largest_difference(model, X) < 1e-9


@pytest.mark.filterwarnings("ignore:.* contain as little information about the priors")
@pytest.mark.parametrize(
    "classifier",
    [
        make_pipeline(StandardScaler(), LogisticRegression()),
        CalibratedClassifier(GaussianNB(), PlattScaling(), cv=2),
        RandomForestClassifier(5, random_state=0),
    ],
)
@pytest.mark.parametrize("absent", [False, True])
def test_prior_shift(data, largest_difference, classifier, absent):
    X, y = data
    X = X.astype(np.float32)
    classifier, few = clone(classifier), {"n_repeats": 1, "n_estimators": 2}
    names = few.keys() & classifier.get_params()
    classifier.set_params(**{name: few[name] for name in names})
    priors = np.arange(1, y.max() + 2) - absent
    options = {"priors": priors / priors.sum(), "n_resamples": 1}
    model = PriorShiftClassifier(classifier, **options).fit(X, y)
    assert largest_difference(model, X) < 1e-5
    assert largest_difference(model.adapt(X), X) < 1e-5
    calibrated = CalibratedClassifier(FrozenEstimator(model), "temperature").fit(X, y)
    assert largest_difference(calibrated, X) < 1e-5


def test_multilabel(data, run_onnx):
    X, y = data
    indicator = np.column_stack([y == 0, X[:, 0] > 0, X[:, 1] > y])
    for classifier, calibrator in (
        (OneVsRestClassifier(LogisticRegression()), TemperatureScaling()),
        (OneVsRestClassifier(LogisticRegression()), None),
        (RidgeClassifier(), PlattScaling()),
    ):
        per_label = calibrator and PerLabelCalibrator(calibrator)
        model = CalibratedClassifier(classifier, per_label, cv=2, n_repeats=1)
        model.fit(X, indicator)
        label, proba = run_onnx(model, X, atol=1e-9)
        np.testing.assert_allclose(proba, model.predict_proba(X), atol=1e-9)
        np.testing.assert_array_equal(label, model.predict(X))
    forest = CalibratedClassifier(RandomForestClassifier(2), None).fit(X, indicator)
    with pytest.raises(ValueError, match=r"one array of probabilities .* got a list"):
        to_onnx(forest, X)


def test_columns_for_a_calibrator(run_onnx, data):
    X, y = data
    proba = pd.DataFrame(GaussianNB().fit(X, y).predict_proba(X)).add_prefix("p")
    model = IsotonicCalibration().fit(proba, y)
    _, exported = run_onnx(model, proba, atol=1e-9)
    np.testing.assert_allclose(exported, model.predict_proba(proba), atol=1e-9)


def test_target_opset(data):
    X, y = data
    model = CalibratedClassifier(GaussianNB(), "platt", cv=2, n_repeats=1).fit(X, y)
    for opset in (18, 20):
        proto = to_onnx(model, X, target_opset=opset, atol=1e-9)
        versions = {each.domain: each.version for each in proto.opset_import}
        assert versions[""] == opset
    for opset in (9, 10**6, "18", 18.0, True):
        with pytest.raises(ValueError, match="target_opset must be an integer"):
            to_onnx(model, X, target_opset=opset)


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (TemperatureScaling(), NotFittedError, "not fitted yet"),
        (CalibratedClassifier(GaussianNB(), None), NotFittedError, "not fitted yet"),
        (NeuralClassifier(), NotFittedError, "not fitted yet"),
        (TemperatureScaling, TypeError, "model must be a fitted classifier"),
        (LinearRegression(), TypeError, "with predict_proba, got LinearRegression"),
        (LinearSVC(), TypeError, "with predict_proba, got LinearSVC"),
        (None, TypeError, "model must be a fitted classifier .* got None"),
        (SelectiveClassifier(GaussianNB()), ValueError, r"Export model\.estimator_"),
        (PredictionSetClassifier(GaussianNB()), ValueError, r"Export model\.estimator"),
    ],
)
def test_models_that_are_refused(data, model, error, message):
    with pytest.raises(error, match=message):
        to_onnx(model, data[0])


def test_parts_that_are_refused(data):
    X, y = data

    class Other(GaussianNB):
        pass

    with pytest.raises(ValueError, match="skl2onnx can convert, got Other: Unable"):
        to_onnx(make_pipeline(StandardScaler(), Other()).fit(X, y), X)
    quadratic = CalibratedClassifier(QuadraticDiscriminantAnalysis(), PlattScaling())
    with pytest.raises(ValueError, match="decision function of QuadraticDiscriminant"):
        to_onnx(quadratic.fit(X, y), X)
    objects = np.array([(label,) for label in y] + [None], dtype=object)[:-1]
    model = TemperatureScaling().fit(np.full((3, 2), 0.5), [0, 1, 1])
    model.classes_ = objects[:2]
    with pytest.raises(ValueError, match="classes of model must be numbers or strings"):
        to_onnx(model, [[0.5, 0.5]])


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (csr_array(np.eye(2)), TypeError, "must not be sparse"),
        ({"a": np.eye(2)}, TypeError, r"a DataFrame, got a dict of \['a'\]"),
        (np.empty((0, 2)), ValueError, "at least one sample"),
        (0.5, ValueError, "at least one sample"),
        (np.full((3, 2), 0.5 + 0j), ValueError, "Complex data not supported"),
        (np.full((3, 5), 0.2), ValueError, "X has 5 features"),
        (np.full((3, 2), np.nan), ValueError, "NaN"),
        (np.full((3, 2), 0.5, np.float16), ValueError, "X must have columns of float"),
        (np.eye(2, dtype=bool), ValueError, "X must have columns of float32"),
        (pd.DataFrame(np.eye(2)), ValueError, "names of type str, got \\[0, 1\\]"),
    ],
)
def test_data_that_are_refused(X, error, message):
    model = TemperatureScaling().fit(np.full((3, 2), 0.5), [0, 1, 1])
    with pytest.raises(error, match=message):
        to_onnx(model, X)


@pytest.mark.parametrize("atol", [-1, "a", np.nan, None, True])
def test_atol_that_is_refused(atol):
    model = TemperatureScaling().fit(np.full((3, 2), 0.5), [0, 1, 1])
    with pytest.raises(ValueError, match="atol must be a non-negative number"):
        to_onnx(model, [[0.5, 0.5]], atol=atol)


def test_a_difference_is_an_error(data, monkeypatch):
    X, y = data
    model = CalibratedClassifier(GaussianNB(), "temperature", **TWO_FOLDS).fit(X, y)
    right = TemperatureScaling._in_graph
    wrong = lambda self, X: 0.9 * right(self, X) + 0.05  # noqa: E731
    monkeypatch.setattr(TemperatureScaling, "_in_graph", wrong)
    with pytest.raises(ValueError, match=r"got a difference of 0\.\d+ > atol=0\.0001"):
        to_onnx(model, X)
    assert to_onnx(model, X, atol=np.inf).graph.node


def test_other_labels_are_an_error(data, monkeypatch):
    X, y = data
    model = CalibratedClassifier(GaussianNB(), "temperature", **TWO_FOLDS).fit(X, y)
    monkeypatch.setattr(model, "predict", lambda X: np.full(len(X), 1))
    with pytest.raises(
        ValueError, match=r"the labels of predict, got \d+ different labels"
    ):
        to_onnx(model, X)


@pytest.mark.parametrize(
    "package",
    [
        "onnxruntime",
        "skl2onnx",
        pytest.param("onnxscript", marks=pytest.mark.slow),  # exports a network
    ],
)
def test_missing_packages_are_named(data, monkeypatch, package):
    X, y = data
    needs_net = package == "onnxscript"
    model = NeuralClassifier(max_epochs=1) if needs_net else LogisticRegression()
    model.fit(X, y)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"to_onnx needs {package}, .* install onnx "):
        to_onnx(model, X)
