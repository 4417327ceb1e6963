"""Laws of all estimators around a classifier: what they take, and what they keep."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.cluster import KMeans
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from sklearn_calib import (
    CalibratedClassifier,
    NeuralClassifier,
    PredictionSetClassifier,
    SelectiveClassifier,
    TemperatureScaling,
    save,
)
from sklearn_calib.calibrators import (
    AutoCalibrator,
    IsotonicCalibration,
    MulticalibrationBoosting,
    PerGroupCalibrator,
    PerLabelCalibrator,
    PlattScaling,
    TopLabelCalibrator,
    VennAbers,
)
from sklearn_calib.deployment import PriorShiftClassifier

pytestmark = pytest.mark.filterwarnings("ignore:.*misclassified samples")

RNG = np.random.default_rng(0)
Y = np.arange(200) % 2
X = np.column_stack([Y + RNG.normal(size=200), np.arange(200) % 3]).astype(np.float32)
SCALING = TemperatureScaling()
WRAPPERS = {
    "calibrated": lambda estimator: CalibratedClassifier(
        estimator, SCALING, cv=2, n_repeats=1
    ),
    "selective": lambda estimator: SelectiveClassifier(
        estimator, coverage=0.5, abstain_label=-1, cv=2
    ),
    "sets": lambda estimator: PredictionSetClassifier(estimator, cv=2),
    "prior shift": PriorShiftClassifier,
}
every_wrapper = pytest.mark.parametrize("wrap", [*WRAPPERS.values()])


# What they take -----------------------------------------------------------------------


@every_wrapper
@pytest.mark.parametrize("frozen", [False, True])
def test_tensors_that_require_grad(wrap, frozen):
    tensor = torch.tensor(X, requires_grad=True)
    estimator = FrozenEstimator(GaussianNB().fit(X, Y)) if frozen else GaussianNB()
    found, expected = wrap(estimator).fit(tensor, Y), wrap(estimator).fit(X, Y)
    np.testing.assert_array_equal(found.predict(tensor), expected.predict(X))
    np.testing.assert_array_equal(
        found.predict_proba(tensor), expected.predict_proba(X)
    )


@every_wrapper
def test_tables_of_arrow(wrap):
    frame = pd.DataFrame(X, columns=["a", "b"])
    table = pytest.importorskip("pyarrow").Table.from_pandas(frame)
    found, expected = (wrap(GaussianNB()).fit(each, Y) for each in (table, frame))
    np.testing.assert_array_equal(
        found.predict_proba(table), expected.predict_proba(frame)
    )


@every_wrapper
def test_words_in_a_frame(wrap):
    frame = pd.DataFrame({"size": X[:, 0], "color": np.array(["red", "blue"])[Y]})
    with pytest.raises(ValueError, match="could not convert string to float: '"):
        wrap(GaussianNB()).fit(frame, Y)


@every_wrapper
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (torch.nn.Linear(2, 2), r"torch module Linear.*initialize\(classes=labels\)"),
        (LinearRegression(), "the regressor LinearRegression. Pass a classifier"),
        (make_pipeline(LinearRegression()), "the regressor LinearRegression"),
    ],
)
def test_what_is_not_a_classifier_is_refused_before_it_is_trained(
    wrap, frozen, estimator, message
):
    estimator = FrozenEstimator(estimator) if frozen else estimator
    with pytest.raises(TypeError, match=f"estimator must be a classifier, .*{message}"):
        wrap(estimator).fit(X, Y)


class CopiesLists(GaussianNB):
    """Classifier that stores a copy of a list, like CatBoost."""

    def __init__(self, cat_features=()):
        super().__init__()
        self.cat_features = list(cat_features)


class Pool:
    """Training data in the container of a library, like a `catboost.Pool`."""


@every_wrapper
def test_lists_and_containers_of_catboost(wrap):
    message = r"^estimator must .*got CopiesLists: .* modifies parameter cat_features"
    for estimator in (CopiesLists([0]), make_pipeline(CopiesLists([0]))):
        with pytest.raises(ValueError, match=message + r".* fit\(X, y, cat_features="):
            wrap(estimator).fit(X, Y)
    with pytest.raises(TypeError, match=r"X must be an array.* got Pool\..* to fit,"):
        wrap(GaussianNB()).fit(Pool(), Y)


def test_what_has_no_classes_is_refused():
    for estimator in (KMeans(2), FrozenEstimator(KMeans(2).fit(X))):
        with pytest.raises(ValueError, match="has classes_ after fit, got KMeans"):
            CalibratedClassifier(estimator, SCALING).fit(X, Y)
    unfitted = FrozenEstimator(NeuralClassifier(torch.nn.Linear(2, 2)))
    with pytest.raises(ValueError, match=r"for a trained module initialize\(classes"):
        CalibratedClassifier(unfitted, SCALING).fit(X, Y)


class Raw(ClassifierMixin, BaseEstimator):
    """Boosting with a custom objective: `predict_proba` returns raw scores."""

    def __init__(self, n_columns=2):
        self.n_columns = n_columns

    def fit(self, X, y):
        self.model_ = LogisticRegression().fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        scores = 5 * self.model_.decision_function(X)
        return np.column_stack([-scores, scores]) if self.n_columns == 2 else scores


@every_wrapper
@pytest.mark.parametrize("n_columns", [1, 2])
def test_raw_scores_in_place_of_probabilities(wrap, n_columns):
    message = r"predict_proba of Raw must lie in \[0, 1\], .* If Raw returns logits, .*"
    with pytest.raises(ValueError, match=f"{message}decision_function") as error:
        wrap(Raw(n_columns)).fit(X, Y).predict_proba(X)
    assert "set from_logits" not in str(error.value)


@pytest.mark.parametrize(
    "calibrator", [TemperatureScaling(from_logits=True), LogisticRegression(), None]
)
def test_raw_scores_with_any_calibrator(calibrator):
    with pytest.raises(ValueError, match="predict_proba of Raw must lie in"):
        CalibratedClassifier(Raw(), calibrator, ensemble=True).fit(X, Y)


@every_wrapper
def test_the_ways_out_of_raw_scores_work(wrap):
    class Declared(Raw):
        decision_function_is_logits = True

        def decision_function(self, X):
            return super().predict_proba(X)[:, 1]

    logits = Raw().fit(X, Y).predict_proba(X)
    TemperatureScaling(from_logits=True).fit(logits, Y)
    inner = CalibratedClassifier(Declared(), SCALING, cv=2, n_repeats=1)
    assert wrap(inner).fit(X, Y).predict_proba(X).shape == (200, 2)


@every_wrapper
@pytest.mark.parametrize("around", [lambda s: s, FrozenEstimator, make_pipeline])
def test_a_classifier_that_abstains_belongs_outside(wrap, around):
    inner = WRAPPERS["selective"](GaussianNB())
    outer, fitted = wrap(around(inner.fit(X, Y))), wrap(GaussianNB())
    name = type(outer).__name__
    way_out = (
        "Pass the classifier that it wraps"
        if wrap is WRAPPERS["selective"]
        else rf"Abstain outside: SelectiveClassifier\({name}\(classifier"
    )
    with pytest.raises(
        ValueError, match=f"must not abstain, .*ignore the abstentions. {way_out}"
    ):
        outer.fit(X, Y)
    if wrap is not WRAPPERS["selective"]:
        assert -1 in WRAPPERS["selective"](fitted).fit(X, Y).predict(X)


def test_a_calibrator_that_abstains_is_refused():
    calibrator = SelectiveClassifier(LogisticRegression(), coverage=0.5)
    with pytest.raises(ValueError, match="calibrator must not have a decision thresh"):
        CalibratedClassifier(LogisticRegression(), calibrator).fit(X, Y)


# What they keep -----------------------------------------------------------------------


def fitted_estimators():
    """Yield estimators that hold others, and the arguments of their predictions."""
    logistic, groups = LogisticRegression(), {"groups": X[:, 1]}
    for calibrator in (None, SCALING, VennAbers(), "auto", logistic):
        model = CalibratedClassifier(logistic, calibrator, cv=2, n_repeats=1)
        yield model.fit(X, Y), {}
    yield CalibratedClassifier(LinearSVC(), VennAbers(), cv=2).fit(X, Y), {}
    of_groups = PerGroupCalibrator(SCALING)
    model = CalibratedClassifier(logistic, of_groups, cv=2, n_repeats=1)
    yield model.fit(X, Y, **groups), groups
    yield clone(model).set_params(groups=1).fit(X, Y), {}
    for confidence in ("msp", "max_logit"):
        selective = WRAPPERS["selective"](logistic).set_params(confidence=confidence)
        yield selective.fit(X, Y), {}
    yield PriorShiftClassifier(logistic, priors=[0.2, 0.8]).fit(X, Y), {}
    proba = logistic.fit(X, Y).predict_proba(X)
    for calibrator in (
        AutoCalibrator([SCALING, PlattScaling()], cv=2),
        TopLabelCalibrator(PlattScaling()),
    ):
        yield calibrator.fit(proba, Y), {"X": proba}
    target = np.column_stack([1 - Y, Y])
    yield PerLabelCalibrator(SCALING).fit(proba, target), {"X": proba}
    for calibrator in (of_groups, MulticalibrationBoosting(SCALING)):
        yield calibrator.fit(proba, Y, **groups), {"X": proba, **groups}


def predictions(model, params):
    names = "predict_proba", "predict", "predict_interval", "accepts"
    given = {n: values[:20] for n, values in {"X": X, **params}.items()}
    draws = {"predict_interval": {"n_resamples": 2, "random_state": 0}}
    return {
        n: getattr(model, n)(**given, **draws.get(n, {}))
        for n in names
        if hasattr(model, n)
    }


# It says what X contains, and not how the estimator was fitted.
OF_INPUT = {"from_logits"}


@pytest.mark.filterwarnings("ignore:X should contain logits")
@pytest.mark.filterwarnings('ignore:Intervals of calibrator="auto"')
def test_parameters_that_are_set_after_fit_do_not_change_predictions():
    """Parameters that are not valid show that no prediction looks at them."""
    for model, params in fitted_estimators():
        expected, text = predictions(model, params), repr(model)
        before = model.get_params(deep=False)
        names = before.keys() - OF_INPUT
        model.set_params(**dict.fromkeys(names, BaseEstimator()))
        found = predictions(model, params)
        assert found.keys() == expected.keys(), text
        for method, values in found.items():
            np.testing.assert_array_equal(values, expected[method], f"{text} {method}")
        model.set_params(**before)


def test_groups_are_those_of_fit():
    model = CalibratedClassifier(LogisticRegression(), SCALING, cv=2, n_repeats=1).fit(
        X, Y
    )
    expected = model.predict_proba(X)
    model.set_params(calibrator=PerGroupCalibrator(SCALING))
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    with pytest.raises(TypeError, match=r"got also \['groups'\].*TemperatureScaling"):
        model.predict_proba(X, groups=Y)
    with pytest.raises(ValueError, match="groups must be given"):
        model.fit(X, Y)
    found = model.fit(X, Y, groups=Y).predict_proba(X, groups=Y)
    assert not np.array_equal(found, expected)


def test_groups_are_those_of_fit_with_routing():
    with config_context(enable_metadata_routing=True):
        calibrator = PerGroupCalibrator(SCALING).set_fit_request(groups=True)
        calibrator.set_predict_proba_request(groups=True)
        model = CalibratedClassifier(
            LogisticRegression(), calibrator, cv=2, n_repeats=1
        )
        expected = model.fit(X, Y, groups=Y).predict_proba(X, groups=Y)
        model.set_params(calibrator=SCALING)
        np.testing.assert_array_equal(model.predict_proba(X, groups=Y), expected)
        plain = clone(model).fit(X, Y)
        expected = plain.predict_proba(X)
        plain.set_params(calibrator=calibrator)
        np.testing.assert_array_equal(plain.predict_proba(X), expected)


def test_a_search_over_calibrators_still_refits():
    grid = {"calibrator": [None, IsotonicCalibration(), VennAbers()]}
    model = CalibratedClassifier(GaussianNB(), None, cv=2, n_repeats=1)
    best = GridSearchCV(model, grid, cv=2, scoring="neg_log_loss").fit(X, Y)
    again = clone(best.best_estimator_).fit(X, Y)
    np.testing.assert_array_equal(again.predict_proba(X), best.predict_proba(X))


# A trained torch module ---------------------------------------------------------------


@pytest.fixture
def trained():
    """Return a module with dropout in training mode, and its logits in evaluation."""
    module = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Linear(2, 2))
    module[1].weight.data = torch.tensor([[-1.0, 0.1], [1.0, 0.0]])
    with torch.no_grad():
        logits = module.eval()(torch.from_numpy(X)).numpy()
    return module.train(), logits


LABELS = np.array(["yes", "no"])  # in the order of the logits, which is not sorted


def test_a_trained_module_predicts_without_fit(trained):
    module, logits = trained
    net = NeuralClassifier(module).initialize(classes=LABELS)
    assert net.classes_.tolist() == LABELS.tolist()
    np.testing.assert_array_equal(net.predict(X), LABELS[logits.argmax(axis=1)])
    expected = torch.from_numpy(logits).softmax(1)
    np.testing.assert_allclose(net.predict_proba(X), expected, rtol=1e-5)
    assert module.training  # it is copied
    frozen = FrozenEstimator(net)
    y = LABELS[Y]
    model = CalibratedClassifier(frozen, SCALING).fit(X, y)
    direct = TemperatureScaling(from_logits=True).fit(logits, y, labels=LABELS)
    np.testing.assert_allclose(
        model.predict_proba(X), direct.predict_proba(logits), rtol=1e-4
    )
    for wrap in WRAPPERS.values():
        wrapped = wrap(frozen)
        if isinstance(wrapped, SelectiveClassifier):
            wrapped.set_params(abstain_label=None)
        assert wrapped.fit(X, y).classes_.tolist() == LABELS.tolist()


def test_a_trained_module_can_be_trained_on(trained):
    net = NeuralClassifier(trained[0]).initialize(classes=LABELS)
    before = net.decision_function(X)
    net.partial_fit(X, LABELS[Y], classes=sorted(LABELS))
    assert net.classes_.tolist() == LABELS.tolist()
    assert not np.array_equal(net.decision_function(X), before)
    net = NeuralClassifier(trained[0], max_epochs=1).initialize(classes=LABELS)
    assert net.fit(X, LABELS[Y]).classes_.tolist() == sorted(LABELS)


def test_a_trained_module_with_several_inputs():
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(2, 2)

        def forward(self, left, right):
            return self.linear(torch.cat([left, right], 1))

    net = NeuralClassifier(Two()).initialize(classes=[0, 1])
    inputs = {"left": X[:, :1], "right": X[:, 1:]}
    assert net.predict_proba(inputs).shape == (200, 2)


def test_errors_of_a_trained_module(trained, tmp_path):
    net = NeuralClassifier(trained[0])
    for classes in ([1, 1], [1], [[0, 1]]):
        with pytest.raises(ValueError, match="at least two distinct labels, one for"):
            net.initialize(classes=classes)
    with pytest.raises(ValueError, match=r"shape \(128, 3\), got shape \(128, 2\)"):
        net.initialize(classes=[0, 1, 2]).predict(X)
    with pytest.raises(ValueError, match="Save the module with torch"):
        save(net.initialize(classes=[0, 1]), tmp_path / "net.safetensors")
