"""AutoCalibrator: weights, report, few samples, and as a spelling "auto"."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import load_iris, make_multilabel_classification
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from sklearn_calib import CalibratedClassifier
from sklearn_calib._numerics.sample_blocks import array_blocks
from sklearn_calib._solvers.stacking import random_folds, stacking_weights
from sklearn_calib.calibrators import (
    AutoCalibrator,
    BoostingCalibrator,
    IsotonicCalibration,
    LogOddsSplineCalibration,
    PerLabelCalibrator,
    StructuredMatrixScaling,
    TemperatureScaling,
    VectorScaling,
)
from sklearn_calib.persistence import from_dict, to_dict

# Some tests have no misclassified sample.
pytestmark = pytest.mark.filterwarnings("ignore:AutoCalibrator needs about 2")
PAIR = [TemperatureScaling(), IsotonicCalibration()]


def test_weights_from_predictions_of_public_methods(make_logits):
    logits, y = make_logits(400, 3)
    weight = np.random.default_rng(0).uniform(0.5, 2, 400)
    weight /= weight.max()  # each sample is in one fold
    auto = AutoCalibrator(PAIR, cv=3, from_logits=True).fit(2 * logits, y, weight)
    fold = random_folds(array_blocks(2 * logits, y), 3).fold
    held_out = np.empty((400, 3))
    held_out[:, 0] = softmax(2 * logits, axis=1)[np.arange(400), y]
    for j, given in enumerate(PAIR, 1):
        for k in range(3):
            fresh = clone(given).set_params(from_logits=True)
            fresh.fit(2 * logits[fold != k], y[fold != k], weight[fold != k])
            proba = fresh.predict_proba(2 * logits[fold == k])
            held_out[fold == k, j] = proba[np.arange(len(proba)), y[fold == k]]
    losses = -np.average(np.log(held_out), axis=0, weights=weight)
    np.testing.assert_allclose(auto.log_losses_, losses, rtol=1e-9)
    relative = stacking_weights(held_out[:, 1:], np.array([0.5, 0.5]), weight)
    gain = weight @ np.log(held_out[:, 1:] @ relative / held_out[:, 0])
    total = 1 / (1 + np.exp(-gain))
    np.testing.assert_allclose(
        auto.weights_, [1 - total, *(total * relative)], rtol=1e-6
    )
    members = [calibrator.predict_proba(2 * logits) for calibrator in auto.calibrators_]
    average = np.tensordot(auto.weights_, [softmax(2 * logits, axis=1), *members], 1)
    expected = average * np.exp(auto.offset_)
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(auto.predict_proba(2 * logits), expected, rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_offsets_from_the_documented_formula(n_classes, make_logits):
    logits, y = make_logits(250, n_classes)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    auto = AutoCalibrator([TemperatureScaling()], from_logits=True)
    auto.fit(2 * logits, y, weight)
    members = [calibrator.predict_proba(2 * logits) for calibrator in auto.calibrators_]
    average = np.tensordot(auto.weights_, [softmax(2 * logits, axis=1), *members], 1)
    b = auto.offset_
    q = softmax(np.log(average) + b, axis=1)
    slope = weight @ (np.eye(n_classes)[y] - q)
    curvature = np.diag(weight @ q) - (q.T * weight) @ q
    linear = slope + curvature @ b

    def mode(log_precision):
        return np.linalg.solve(
            curvature + np.exp(log_precision) * np.eye(len(b)), linear
        )

    def minus_log_evidence(log_precision):
        prior = np.exp(log_precision)
        _, log_det = np.linalg.slogdet(np.eye(len(b)) + curvature / prior)
        return (log_det - linear @ mode(log_precision)) / 2

    bounds = 0, np.log(1e8)
    best = minimize_scalar(minus_log_evidence, bounds=bounds, method="bounded").x
    np.testing.assert_allclose(b, mode(best), atol=2e-6)


@pytest.mark.parametrize(
    ("n_samples", "n_classes", "n_draws"),
    [
        (50, 2, 10),
        pytest.param(50, 4, 50, marks=pytest.mark.slow),
        pytest.param(200, 4, 50, marks=pytest.mark.slow),
    ],
)
def test_calibrated_probabilities_are_left_almost_alone(n_samples, n_classes, n_draws):
    """The mean increase of the log loss is within the stated limit."""
    excess, before = [], []
    for seed in range(n_draws):
        rng = np.random.default_rng(seed)
        logits = 3 * rng.normal(size=(n_samples + 2000, n_classes))
        y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
        auto = AutoCalibrator(from_logits=True)
        auto.fit(logits[:n_samples], y[:n_samples], labels=np.arange(n_classes))
        truth = softmax(logits[n_samples:], axis=1)
        before.append(-(truth * np.log(truth)).sum(axis=1).mean())
        proba = auto.predict_proba(logits[n_samples:])
        excess.append(-(truth * np.log(proba)).sum(axis=1).mean() - before[-1])
    assert np.mean(excess) < max(0.005 * np.mean(before), 0.5 / n_samples)


def test_it_calibrates_where_it_is_needed(make_logits):
    logits, y = make_logits(3000, 3)
    auto = AutoCalibrator(from_logits=True).fit(3 * logits[:1000], y[:1000])
    assert auto.weights_[0] < 1e-6
    loss = log_loss(y[1000:], auto.predict_proba(3 * logits[1000:]))
    assert loss < log_loss(y[1000:], softmax(logits[1000:], axis=1)) + 0.01


@pytest.mark.filterwarnings("ignore:y contains no samples:UserWarning")
@pytest.mark.parametrize("X", [[[2.0, 1.0, 0.0]], [[1e3, -1e3, 0.0]], [[0.0, 0, 0]]])
def test_one_sample(X):
    auto = AutoCalibrator(from_logits=True).fit(X, ["b"], labels=["a", "b", "c"])
    # There are no training samples for the folds, so only the prior odds remain.
    np.testing.assert_allclose(auto.weights_[0], 0.5)
    assert np.isfinite(auto.predict_proba(X)).all()


def test_separable_classes_with_few_samples():
    """Every fit would be confident; the probabilities before calibration remain."""
    rng = np.random.default_rng(0)
    y = np.arange(12) % 3
    logits = 4 * np.eye(3)[y] + rng.normal(size=(12, 3))
    auto = AutoCalibrator(from_logits=True).fit(logits, y)
    assert 0.05 < auto.weights_[0] < 0.6
    assert (auto.predict_proba(logits) > 1e-6).all()


@pytest.mark.parametrize("parent", [LogOddsSplineCalibration, VectorScaling])
def test_a_subclass_with_a_fit_of_its_own(parent, make_logits):
    """It is called in the folds, too."""

    class Extended(parent):
        def _fit(self, data):
            super()._fit(data)
            self.half_ = 0.5

        def _calibrate(self, logits):
            return super()._calibrate(logits * self.half_)

    options = {"penalty": "empirical_bayes"} if parent is VectorScaling else {}
    logits, y = make_logits(200, 3)
    auto = AutoCalibrator([Extended(**options)], cv=2, from_logits=True)
    assert np.isfinite(auto.fit(logits, y).log_losses_).all()


def test_absent_class_is_said_once():
    rng = np.random.default_rng(0)
    X, y = rng.dirichlet(np.ones(3), size=60), rng.choice(["a", "c"], 60)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        AutoCalibrator(cv=2).fit(X, y, labels=["a", "b", "c"])
    (only,) = [
        warning for warning in caught if "needs about" not in str(warning.message)
    ]
    assert str(only.message).startswith("y contains no samples of ['b']: AutoCalib")


def test_report_and_explanation(make_logits):
    logits, y = make_logits(300, 2)
    X = pd.DataFrame(softmax(3 * logits, axis=1), columns=["no", "yes"])
    auto = AutoCalibrator()
    assert not hasattr(auto, "report_")
    with pytest.raises(NotFittedError):
        auto.predict_proba(X)
    table = pd.DataFrame(auto.fit(X, y).report_).set_index("calibrator")
    assert [*table.columns] == ["log_loss", "weight", "note"]
    assert table["weight"].sum() == pytest.approx(1)
    used = table[table["note"] == ""]
    assert [*used.index] == [
        "none",
        "JointBetaCalibration()",
        "LogOddsSplineCalibration()",
    ]
    np.testing.assert_array_equal(used["weight"], auto.weights_)
    of_more = table.loc["StructuredMatrixScaling(lambd=1.0)"]
    assert of_more["note"] == "for 3 to 100 classes"
    auto.set_params(calibrators=PAIR, cv=2)  # for the next fit
    np.testing.assert_array_equal(pd.DataFrame(auto.report_)["note"], [*table["note"]])
    text = auto.explanation_
    assert "LogOddsSplineCalibration(): log loss 0." in text
    assert "StructuredMatrixScaling(): for 3 to 100 classes" in text
    assert text.index("JointBeta") < text.index("none:")  # sorted by weight


def test_many_classes_leave_out_slow_calibrators():
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(150, 101))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    auto = AutoCalibrator(cv=2, from_logits=True)
    with pytest.warns(UserWarning, match="y contains no samples"):
        auto.fit(2 * logits, y, labels=np.arange(101))
    kinds = [type(calibrator).__name__ for calibrator in auto.calibrators_]
    assert kinds == [
        "TemperatureScaling",
        "JointBetaCalibration",
        "StructuredVectorScaling",
    ]
    assert "LogOddsSplineCalibration(): for two classes" in auto.explanation_


def test_verbose(make_logits, capsys):
    auto = AutoCalibrator(PAIR, cv=2, from_logits=True).fit(*make_logits(100, 3))
    assert capsys.readouterr().out == ""
    auto.set_params(verbose=1).fit(*make_logits(100, 3))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "[AutoCalibrator] TemperatureScaling()",
        "[AutoCalibrator] IsotonicCalibration()",
        "[AutoCalibrator] fold 1 of 2",
        "[AutoCalibrator] fold 2 of 2",
    ]


def test_long_names_are_on_one_line(make_logits):
    long = StructuredMatrixScaling(lambd=[k / 7 for k in range(1, 7)])
    auto = AutoCalibrator([long], cv=2, from_logits=True).fit(*make_logits(100, 3))
    assert len(auto.explanation_.splitlines()) == 4
    auto.calibrators_, auto.weights_ = [long] * 40, np.full(41, 1 / 41)
    auto.log_losses_ = np.ones(41)
    assert auto.explanation_.endswith("\n... and 14 more lines: see report_")
    assert auto.report_["calibrator"][1].endswith(f", {6 / 7}])")


def test_samples_of_weight_zero_are_ignored(make_logits):
    """They do not change the folds of the others either."""
    logits, y = make_logits(100, 3)
    weight = np.random.default_rng(0).integers(0, 3, 100).astype(float)
    seen = weight > 0
    auto = AutoCalibrator(PAIR, cv=2, from_logits=True)
    wanted = auto.fit(logits[seen], y[seen], weight[seen]).predict_proba(logits)
    proba = auto.fit(logits, y, weight).predict_proba(logits)
    np.testing.assert_allclose(proba, wanted, rtol=1e-12)


def test_plot_of_equal_calibrators(make_logits):
    plt = pytest.importorskip("matplotlib.pyplot")
    twice = [TemperatureScaling(), TemperatureScaling()]
    auto = AutoCalibrator(twice, cv=2, from_logits=True).fit(*make_logits(100, 2))
    assert len({bar.get_y() for bar in auto.plot().patches}) == 3
    plt.close("all")


def test_plot(make_logits):
    plt = pytest.importorskip("matplotlib.pyplot")
    auto = AutoCalibrator(PAIR, cv=2, from_logits=True).fit(*make_logits(100, 2))
    _, given = plt.subplots()
    for ax in (auto.plot(), auto.plot(given)):
        widths = [bar.get_width() for bar in ax.patches]
        np.testing.assert_allclose(widths, auto.weights_)
        labels = [text.get_text() for text in ax.get_yticklabels()]
        assert labels == ["none", "TemperatureScaling()", "IsotonicCalibration()"]
    assert ax is given
    plt.close("all")


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"calibrators": []}, TypeError, r"list of calibrators.*got \[\]"),
        ({"calibrators": ["platt"]}, TypeError, r"got \['platt'\]"),
        ({"calibrators": "platt"}, ValueError, "'calibrators' parameter"),
        ({"calibrators": [TemperatureScaling]}, TypeError, "list of calibrators"),
        ({"calibrators": [GaussianNB()]}, TypeError, "list of calibrators"),
        (
            {"calibrators": [BoostingCalibrator(None)]},
            TypeError,
            "other than BoostingCalibrator",
        ),
        (
            {"calibrators": [PerLabelCalibrator(TemperatureScaling())]},
            TypeError,
            "list of calibrators",
        ),
        (
            {"calibrators": [VectorScaling(penalty="l3")]},
            ValueError,
            "'penalty' parameter",
        ),
        ({"cv": 1}, ValueError, "'cv' parameter"),
        ({"cv": True}, ValueError, "'cv' parameter"),
    ],
)
def test_bad_parameters(params, error, message):
    with pytest.raises(error, match=message):
        AutoCalibrator(**params).fit([[0.2, 0.8], [0.6, 0.4]], [1, 0])


@pytest.mark.parametrize("calibrators", [None, PAIR])
def test_saved_and_loaded(calibrators, make_logits):
    logits, y = make_logits(300, 3)
    auto = AutoCalibrator(calibrators, cv=2, from_logits=True).fit(logits, y)
    loaded = from_dict(to_dict(auto))
    np.testing.assert_array_equal(
        loaded.predict_proba(logits), auto.predict_proba(logits)
    )
    pd.testing.assert_frame_equal(
        pd.DataFrame(loaded.report_), pd.DataFrame(auto.report_)
    )
    document = to_dict(auto)
    members = document["object"]["state"]["calibrators_"]
    members[0]["params"]["from_logits"] = False
    members[0]["state"]["zero_replacement_"] = 1e-9
    with pytest.raises(ValueError, match=r"\[0\]\.from_logits must be True"):
        from_dict(document)


X, Y = (array[50:] for array in load_iris(return_X_y=True))  # two classes


def test_auto_of_a_calibrated_classifier():
    """It is an AutoCalibrator, for each label of a multilabel problem."""
    options = {"cv": 2, "ensemble": False}
    short = CalibratedClassifier(GaussianNB(), "auto", **options).fit(X, Y)
    long = CalibratedClassifier(GaussianNB(), AutoCalibrator(), **options).fit(X, Y)
    proba = short.predict_proba(X)
    np.testing.assert_array_equal(proba, long.predict_proba(X))
    assert isinstance(short.calibrated_classifiers_[0].calibrator, AutoCalibrator)
    assert clone(short).get_params()["calibrator"] == "auto"
    data = make_multilabel_classification(60, n_classes=2, random_state=0)
    tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    many = CalibratedClassifier(tree, "auto", **options).fit(*data)
    assert isinstance(many.calibrated_classifiers_[0].calibrator, PerLabelCalibrator)
    assert many.predict_proba(data[0]).shape == (60, 2)


def test_auto_in_a_search():
    search = GridSearchCV(
        CalibratedClassifier(GaussianNB(), None, cv=2, ensemble=False),
        {"calibrator": [None, "auto"]},
        scoring="neg_log_loss",
        cv=2,
        refit=False,
    ).fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (
            CalibratedClassifier(GaussianNB(), "automatic"),
            ValueError,
            "Did you mean 'auto'",
        ),
    ],
)
def test_errors_of_auto(model, error, message):
    with pytest.raises(error, match=message):
        model.fit(X, Y)


def test_auto_has_no_nested_parameters():
    with pytest.raises(AttributeError, match="'str' object has no attribute"):
        CalibratedClassifier(GaussianNB(), "auto").set_params(calibrator__cv=3)
