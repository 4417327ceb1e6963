"""Tables of classifiers and metrics."""

import re
from decimal import Decimal
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from joblib import parallel_config
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    brier_score_loss,
    log_loss,
    make_scorer,
    matthews_corrcoef,
    roc_auc_score,
)
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC

from sklearn_calib.evaluation import compare
from sklearn_calib.metrics import (
    aurc_loss,
    bootstrap_interval,
    ece_interval,
    expected_calibration_error,
    expected_cost_loss,
    get_scorer,
    get_scorer_names,
    net_benefit_score,
    per_label,
)

# Those of groups need metadata.
SCORERS = [
    name
    for name in get_scorer_names()
    if not (get_scorer(name).needs_groups or get_scorer(name).needs_sets)
]
# The others are calibration errors, whose true value is 0 for calibrated predictions.
NOT_ERRORS = {
    *("coverage_at_5_percent_risk", "failure_auroc", "neg_augrc", "neg_aurc"),
    *("neg_brier_refinement", "neg_e50", "neg_e90", "neg_emax", "neg_excess_aurc"),
    *("neg_expected_cost", "neg_ici", "neg_refinement", "neg_root_brier"),
    *("neg_risk_at_80_percent_coverage", "neg_variational_calibration"),
    "refinement_auc",
}
ERROR_RATE = pytest.mark.filterwarnings("ignore:.*is the error rate, as expected_cost")
X, CODES = make_classification(
    n_samples=400, n_informative=5, n_classes=3, flip_y=0.2, random_state=0
)
Y = np.array(["pear", "apple", "plum"])[CODES]
MODELS = {"bayes": GaussianNB(), "logistic": LogisticRegression()}
MODELS = {name: model.fit(X[::2], Y[::2]) for name, model in MODELS.items()}
DATA = X[1::2], Y[1::2]
# Where results are only compared with each other.
FEW = X[1:40:2], Y[1:40:2]


@ERROR_RATE
def test_values_are_those_of_the_scorers():
    names = ["accuracy", "neg_log_loss", "roc_auc_ovr", "f1_macro", *SCORERS]
    table = compare(MODELS, *FEW, metrics=names, n_resamples=0)
    assert list(table.index) == list(MODELS)
    for name in names:
        column = table[name.removeprefix("neg_")]
        for row, model in MODELS.items():
            sign = -1 if name.startswith("neg_") else 1
            expected = sign * get_scorer(name)(model, *FEW)
            assert column.loc[row, "value"] == pytest.approx(expected, rel=1e-12)
    assert table.drop("value", axis=1, level=1).isna().all(axis=None)


def test_expected_cost_without_costs_is_called_error_rate():
    cost = partial(expected_cost_loss, costs=[[0, 1, 2], [1, 0, 1], [9, 1, 0]])
    metrics = {"cost": cost, "bare": expected_cost_loss, "name": "neg_expected_cost"}
    with pytest.warns(UserWarning, match="is the error rate") as caught:
        compare(MODELS, *FEW, metrics=metrics, n_resamples=0)
    assert [str(each.message)[:15] for each in caught] == [
        "metrics['bare']",
        "metrics['name']",
    ]


def test_intervals():
    """Debiased intervals for calibration errors, bootstrap intervals for others."""
    metrics = ["neg_ece", "neg_aurc", "neg_mce", "neg_classwise_ece"]
    options = {"n_resamples": 10, "confidence_level": 0.8}
    X, y = FEW
    table = compare(MODELS, X, y, metrics=metrics, random_state=3, **options)
    for name, model in MODELS.items():
        proba, labels = model.predict_proba(X), model.classes_
        options["random_state"] = np.random.RandomState(3).randint(2**31 - 1)
        row = table.loc[name]
        expected = bootstrap_interval(aurc_loss, y, proba, **options)
        np.testing.assert_allclose(row["aurc"][["low", "high"]], expected)
        for column, mode in [("ece", "top_label"), ("classwise_ece", "classwise")]:
            expected = ece_interval(y, proba, mode=mode, labels=labels, **options)
            np.testing.assert_allclose(row[column][["low", "high"]], expected)
        expected = ece_interval(
            y, proba, mode="top_label", norm="max", labels=labels, **options
        )
        np.testing.assert_allclose(row["mce"][["low", "high"]], expected)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_intervals_of_the_names_of_scikit_learn(n_classes):
    """The mode is "positive" for two classes, and "top_label" for more."""
    kept = n_classes > CODES
    model = GaussianNB().fit(X[kept][::2], Y[kept][::2])
    X_test, y_test = X[kept][1::2], Y[kept][1::2]
    metrics = ["neg_l2_calibration_error"]
    table = compare(
        {"bayes": model}, X_test, y_test, metrics=metrics, random_state=3
    ).loc["bayes"]
    proba = model.predict_proba(X_test)
    expected = ece_interval(
        y_test,
        proba[:, 1] if n_classes == 2 else proba,
        n_bins="cube_root",
        strategy="quantile",
        norm="l2",
        labels=model.classes_,
        random_state=np.random.RandomState(3).randint(2**31 - 1),
    )
    np.testing.assert_allclose(table["l2_calibration_error"][["low", "high"]], expected)


def test_the_same_draws_for_all():
    twins, few = {"one": MODELS["bayes"], "two": MODELS["bayes"]}, (X[:6], Y[:6])
    table = compare(twins, *few, n_resamples=2, random_state=0)
    np.testing.assert_array_equal(table.loc["one"], table.loc["two"])
    with parallel_config("threading"):
        again = compare(twins, *few, n_resamples=2, random_state=0, n_jobs=2)
    np.testing.assert_array_equal(table, again)
    other = compare(twins, *few, n_resamples=2, random_state=1)
    assert not np.array_equal(table, other)


def test_weights_are_repetitions():
    weight = np.arange(len(DATA[1])) % 3
    metrics = ["accuracy", "neg_ece", "neg_aurc"]
    table = compare(MODELS, *DATA, metrics=metrics, sample_weight=weight, n_resamples=0)
    repeated = [array.repeat(weight, axis=0) for array in DATA]
    expected = compare(MODELS, *repeated, metrics=metrics, n_resamples=0)
    np.testing.assert_allclose(table, expected, rtol=1e-9)


@pytest.mark.parametrize(
    "form",
    [
        lambda a: [Decimal(value) for value in a.tolist()],
        lambda a: torch.tensor(a, requires_grad=True),
        lambda a: a * 2.0**20,
    ],
    ids=["decimals", "tensor", "large"],
)
def test_weights_in_another_form(form):
    data = FEW[0][:5], FEW[1][:5]
    weight = 1 + np.arange(5) % 3.0
    options = {"n_resamples": 2, "random_state": 0}
    options["metrics"] = ["accuracy", "neg_log_loss", "neg_ece"]
    expected = compare(MODELS, *data, sample_weight=weight, **options)
    table = compare(MODELS, *data, sample_weight=form(weight), **options)
    pd.testing.assert_frame_equal(table, expected)


@pytest.mark.parametrize(
    "y",
    [
        np.full(len(DATA[1]), "fig"),
        np.arange(len(DATA[1])).astype("datetime64[s]"),
        np.array([{}] * len(DATA[1])),
    ],
    ids=["unknown", "times", "dicts"],
)
def test_labels_that_the_classifiers_do_not_know(y):
    with pytest.raises((TypeError, ValueError), match=r"^y must contain (only|label)"):
        compare(MODELS, DATA[0], y)


def test_another_number_of_labels():
    message = r"y must contain one label for each sample of X, got 19 labels and 20"
    with pytest.raises(ValueError, match=message):
        compare(MODELS, FEW[0], FEW[1][:-1])


def test_names_of_columns_and_scorers_of_ones_own():
    metrics = {"NLL": "neg_log_loss", "MCC": make_scorer(matthews_corrcoef)}
    table = compare(
        {"bayes": MODELS["bayes"]},
        *FEW,
        metrics=metrics,
        n_resamples=10,
        random_state=0,
    )
    assert list(table.columns.unique(0)) == ["NLL", "MCC"]
    model = MODELS["bayes"]
    expected = log_loss(FEW[1], model.predict_proba(FEW[0]), labels=model.classes_)
    assert table["NLL"]["value"].item() == pytest.approx(expected)
    expected = matthews_corrcoef(FEW[1], model.predict(FEW[0]))
    assert table["MCC"]["value"].item() == pytest.approx(expected)
    for name in metrics:
        low, high = table.loc["bayes", name][["low", "high"]]
        assert low < table.loc["bayes", name]["value"] < high


RNG = np.random.default_rng(0)
CALIBRATED = RNG.dirichlet(np.ones(3), 500)
DRAWN = (RNG.uniform(size=(500, 1)) > CALIBRATED.cumsum(axis=1)).sum(axis=1)
FAST = {"n_resamples": 5, "random_state": 0}


class Calibrated(ClassifierMixin, BaseEstimator):
    """Classifier that returns its input as predictions."""

    classes_ = np.arange(3)

    def predict_proba(self, X):
        return X

    def predict(self, X):
        return X.argmax(axis=1)


def compare_calibrated(scorers, n_samples=500, **options):
    data = CALIBRATED[:n_samples], DRAWN[:n_samples]
    table = compare({"": Calibrated()}, *data, metrics=scorers, **FAST | options)
    return table.iloc[0].unstack(level=1)


@ERROR_RATE
def test_a_scorer_has_the_row_of_its_name():
    names = ["accuracy", "neg_log_loss", *SCORERS]
    few = {"n_samples": 3, "n_resamples": 1}
    by_name = compare_calibrated({name: name for name in names}, **few)
    by_object = compare_calibrated({name: get_scorer(name) for name in names}, **few)
    pd.testing.assert_frame_equal(by_name, by_object)


def test_intervals_of_calibration_errors_hold_zero_on_calibrated_data():
    names = {name: name for name in SCORERS if name not in NOT_ERRORS}
    assert len(names) == 22
    rows = compare_calibrated(names, n_samples=200, n_resamples=10)
    assert rows.index[rows["low"] != 0].tolist() == []
    assert (rows["value"] <= rows["high"]).all()


def test_scorers_made_by_scikit_learn_and_functions():
    """For scorers of make_scorer, the metric is used; functions are resampled."""
    error = partial(expected_calibration_error, labels=[0, 1, 2])

    def own(estimator, X, y, sample_weight=None):
        proba = estimator.predict_proba(X)
        return error(y, proba, sample_weight=sample_weight)

    made = make_scorer(error, response_method="predict_proba", greater_is_better=False)
    rows = compare_calibrated({"ours": "neg_ece", "made": made, "own": own})
    assert rows["value"].nunique() == 1
    assert (rows["low"] == 0).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": ["neg_ecce"]}, "Did you mean 'neg_ece'"),
        ({"metrics": "accuracy"}, "'metrics' parameter of compare must be"),
        (
            {"metrics": [None]},
            "metrics must contain names of scorers, got .None.. Pass",
        ),
        ({"metrics": (1, 2)}, r"metrics must contain names of scorers, got \(1, 2\)"),
        ({"n_resamples": -1}, "'n_resamples' parameter"),
        ({"confidence_level": 95}, "'confidence_level' parameter"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        compare(MODELS, *DATA, **options)


def test_classifier_without_probabilities():
    models = {"svm": SVC().fit(*DATA)}
    with pytest.raises(ValueError, match=r"predict_proba, got SVC for 'svm'.*Wrap"):
        compare(models, *DATA)


def test_estimators_without_names():
    with pytest.raises(TypeError, match=r"estimators must be a dict.*got list"):
        compare([MODELS["bayes"]], *DATA)


def test_a_class_that_is_absent_from_y():
    """Its column still counts, for the metrics of scikit-learn as well."""
    proba = np.array([[0.5, 0.2, 0.3], [0.1, 0.8, 0.1], [0.2, 0.4, 0.4]])
    y, metrics = ["a", "b", "a"], ["neg_log_loss", "accuracy", "neg_ece"]
    for order in ([0, 1, 2], [2, 0, 1]):
        table = compare(
            {"stored": proba[:, order]},
            None,
            y,
            metrics=metrics,
            labels=np.array(["a", "b", "c"])[order],
            n_resamples=0,
        )
        value = table.loc["stored", ("log_loss", "value")]
        assert value == pytest.approx(-np.log([0.5, 0.8, 0.2]).mean(), abs=1e-12)


def test_a_decision_threshold_is_ignored_with_a_warning():
    X, y = make_classification(200, random_state=0)
    y = np.array(["healthy", "sick"])[y]
    plain = LogisticRegression().fit(X, y)
    model = FixedThresholdClassifier(plain, threshold=0.1, pos_label="sick").fit(X, y)
    with pytest.warns(UserWarning, match=r"estimators\['sick'\] has a decision thres"):
        table = compare({"sick": model, "plain": plain}, X, y, n_resamples=0)
    assert model.score(X, y) < plain.score(X, y)
    assert (table.loc["sick"] == table.loc["plain"])["accuracy"]["value"]


def own(y_true, y_proba, *, power=1, sample_weight=None):
    """Return a metric of one's own."""
    gap = np.abs((y_true == "pear") - y_proba[:, 1])
    return float(np.average(gap**power, weights=sample_weight))


TWO = CODES < 2
BINARY = GaussianNB().fit(X[TWO][::2], Y[TWO][::2])
TWO_CLASSES = X[TWO][1::2], Y[TWO][1::2]


def test_metrics_are_called_with_probabilities():
    X, y = (each[:20] for each in TWO_CLASSES)
    proba = BINARY.predict_proba(X)
    metrics = {
        "ours": expected_calibration_error,
        "options": partial(expected_calibration_error, n_bins=5, mode="positive"),
        "positive": partial(net_benefit_score, threshold=0.3),
        "own": partial(own, power=2),
    }
    models = {"model": BINARY, "stored": proba}
    table = compare(models, X, y, metrics=metrics, **FAST)
    assert table.loc["model"].equals(table.loc["stored"])
    seed = np.random.RandomState(0).randint(2**31 - 1)
    for name, metric in metrics.items():
        ends = bootstrap_interval(metric, y, proba, n_resamples=5, random_state=seed)
        row = table.loc["model", name].to_numpy()
        np.testing.assert_array_equal(row, [metric(y, proba), *ends])


def test_metrics_of_scikit_learn_receive_what_their_scorers_receive():
    """One column for two classes, and columns in the order of the sorted labels."""
    y, proba = TWO_CLASSES[1], BINARY.predict_proba(TWO_CLASSES[0])
    metrics = {
        "auc": roc_auc_score,
        "brier": partial(brier_score_loss, pos_label="pear"),
        "nll": log_loss,
    }
    for order in ([0, 1], [1, 0]):
        models, labels = {"stored": proba[:, order]}, BINARY.classes_[order]
        options = {"labels": labels, "n_resamples": 0, "metrics": metrics}
        row = compare(models, None, y, **options).loc["stored"].dropna()
        by_hand = [
            roc_auc_score(y, proba[:, 1]),
            np.mean((proba[:, 1] - (y == "pear")) ** 2),
            log_loss(y, proba),
        ]
        np.testing.assert_allclose(row, by_hand, rtol=1e-12)


def test_a_metric_that_fails_has_cells_of_nan():
    """The Brier score of string labels needs `pos_label`."""
    metrics = ["neg_ece", "neg_brier_score"]
    match = r"metrics\['brier_score'\] could .* 'bayes'.* ValueError: .*pos_label"
    with pytest.warns(UserWarning, match=match) as caught:
        table = compare({"bayes": BINARY}, *TWO_CLASSES, metrics=metrics, **FAST)
    assert len(caught) == 1
    assert table["brier_score"].isna().all(axis=None)
    expected = compare({"bayes": BINARY}, *TWO_CLASSES, metrics=metrics[:1], **FAST)
    pd.testing.assert_frame_equal(table[["ece"]], expected)


def test_a_value_without_an_interval():
    """The draws contain some samples several times."""

    def of_distinct(_, y_proba):
        return float("nan" if len(np.unique(y_proba, axis=0)) < len(y_proba) else 1)

    with pytest.warns(UserWarning, match=r"metrics\['own'\].*most of the drawn"):
        table = compare(MODELS, *DATA, metrics={"own": of_distinct}, **FAST)
    assert table["own"].notna().to_numpy().tolist() == [[True, False, False]] * 2


def test_a_misspelt_option_of_a_metric():
    metrics = {"ECE": partial(expected_calibration_error, n_bin=5)}
    with pytest.raises(TypeError, match=r"expected_cal.* got 'n_bin'.* 'n_bins'\?"):
        compare(MODELS, *DATA, metrics=metrics)


def several(n_runs=3, X=FEW[0]):
    """Return classifiers that differ, and their probabilities."""
    parts = [slice(start, None, 5) for start in range(n_runs)]
    models = [GaussianNB().fit(X_train[part], Y_train[part]) for part in parts]
    return models, [model.predict_proba(X) for model in models]


X_train, Y_train = X[::2], Y[::2]


@pytest.mark.parametrize("form", [0, 1], ids=["classifiers", "arrays"])
@pytest.mark.parametrize("kind", [list, tuple])
def test_several_seeds_are_one_row(form, kind):
    data = FEW[0][:5], FEW[1][:5]
    runs = kind(several(2, data[0])[form])
    options = {"metrics": ["accuracy", "neg_ece"], "n_resamples": 2, "random_state": 0}
    table = compare({"several": runs, "one": runs[0]}, *data, **options)
    each = compare(dict(enumerate(runs)), *data, **options)
    assert list(table.index) == ["several", "one"]
    for metric in ("accuracy", "ece"):
        cell, cells = table.loc["several", metric], each[metric]
        expected = cells.mean()
        np.testing.assert_allclose(cell[expected.index], expected)
        assert cell["std"] == pytest.approx(cells["value"].std())
        one = table.loc["one", metric]
        np.testing.assert_array_equal(one.drop("std"), cells.loc[0])
        assert np.isnan(one["std"])


def test_seeds_of_one_column_and_a_single_one():
    """A list of as many columns as there are samples contains rows."""
    X, y = TWO_CLASSES[0][:30], TWO_CLASSES[1][:30]
    proba = BINARY.predict_proba(X)[:, 1]
    options = {"metrics": ["neg_ece", "accuracy"], "n_resamples": 0}
    options["labels"] = BINARY.classes_
    rows = {"two": [proba, proba**2], "one": [proba[:, None]], "stored": proba}
    table = compare(rows, None, y, **options)
    assert table["ece"]["std"].isna().tolist() == [False, True, True]
    np.testing.assert_array_equal(table.loc["one"], table.loc["stored"])
    two = [*np.column_stack([1 - proba, proba])[:2]]
    plain = compare({"rows": two}, None, ["pear", "apple"], **options)
    assert plain.shape == (1, 6)


def test_seeds_are_printed_with_their_spread():
    rows = {"several": several()[1], "one": several()[1][0]}
    options = {"metrics": ["accuracy"], "random_state": 0}
    table = compare(rows, None, FEW[1], n_resamples=10, **options)
    assert re.fullmatch(
        r"0\.\d\d ± 0\.\d\d \[0\.\d\d, 0\.\d\d\]",
        table.formatted(2).loc["several", "accuracy"],
    )
    assert "±" in repr(table)
    assert "±" not in table.formatted(2).loc["one", "accuracy"]
    bare = compare(rows, None, FEW[1], n_resamples=0, **options).formatted(1)
    assert re.fullmatch(r"0\.\d ± 0\.\d", bare.loc["several", "accuracy"])


def test_messages_name_the_seed():
    models, proba = several(2)
    with pytest.raises(ValueError, match=r"got None with a classifier for 'net'\[0\]"):
        compare({"net": models}, None, FEW[1])
    with pytest.raises(ValueError, match=r"predict_proba, got SVC for 'net'\[1\]"):
        compare({"net": [models[0], SVC().fit(*DATA)]}, *FEW)
    with pytest.raises(
        ValueError, match=r"estimators\['net'\]\[1\] must contain one row"
    ):
        compare({"net": [proba[0], proba[1][:5]]}, None, FEW[1])
    impossible = np.where(proba[1] == proba[1].max(1, keepdims=True), 1.0, 0)

    def finite(y_true, y_proba):
        if y_proba.max() == 1:
            raise ValueError("infinite")
        return np.mean(y_true == "pear")

    with pytest.warns(UserWarning, match=r"for 'net'\[1\], so its cell contains NaN"):
        table = compare(
            {"net": [proba[0], impossible], "other": proba[0]},
            None,
            FEW[1],
            metrics={"own": finite},
            n_resamples=0,
        )
    assert table["own"]["value"].isna().tolist() == [True, False]


def test_samples_that_require_grad():
    tensor = torch.tensor(FEW[0], requires_grad=True)
    options = {"metrics": ["neg_ece"], "n_resamples": 0}
    expected = compare(MODELS, *FEW, **options)
    pd.testing.assert_frame_equal(compare(MODELS, tensor, FEW[1], **options), expected)


@pytest.mark.parametrize("name", ["estimators", "metrics"])
def test_nothing_to_compare(name):
    given = {"estimators": MODELS, "metrics": ["neg_ece"], name: {}}
    with pytest.raises(ValueError, match=rf"{name} must not be empty, got .*\. Pass"):
        compare(X=FEW[0], y=FEW[1], **given)


def test_more_resamples_than_anyone_needs():
    match = r"'n_resamples' .* range \[0, 10000000\]\. Got 10{12} "
    with pytest.raises(ValueError, match=match):
        compare(MODELS, *FEW, n_resamples=10**12)


@pytest.mark.parametrize("name", ["set_coverage", "neg_mean_set_size"])
def test_metrics_of_prediction_sets_are_refused(name):
    message = f"metrics must be computed from probabilities, got '{name}', which"
    with pytest.raises(ValueError, match=message):
        compare({"one": [[0.9, 0.1], [0.2, 0.8]]}, None, [0, 1], metrics=[name])


X_LABELS = RNG.normal(size=(12, 2))
Y_LABELS = (X_LABELS + RNG.normal(size=X_LABELS.shape) > [0, 1]).astype(int)
LISTS = MultiOutputClassifier(GaussianNB()).fit(X_LABELS, Y_LABELS)
ARRAYS = OneVsRestClassifier(LogisticRegression()).fit(X_LABELS, Y_LABELS)


@pytest.mark.parametrize("weighted", [False, True])
def test_several_labels_are_averaged(weighted):
    """The values by scikit-learn, and the intervals of the mean over the labels."""
    weight = np.arange(12) % 3 if weighted else None
    proba = np.column_stack([pair[:, 1] for pair in LISTS.predict_proba(X_LABELS)])
    metrics = {
        "accuracy": "accuracy",
        "log_loss": "neg_log_loss",
        "brier": "neg_brier_score",
        "auc": roc_auc_score,
        "ece": expected_calibration_error,
        "top_ece": "neg_ece",
    }
    rows = {"model": LISTS, "list": LISTS.predict_proba(X_LABELS), "array": proba}
    data = X_LABELS, Y_LABELS
    options = {"metrics": metrics, "sample_weight": weight}
    table = compare({"model": LISTS}, *data, **options, **FAST)
    values = compare(rows, *data, **options, n_resamples=0).xs("value", axis=1, level=1)
    for _, row in values.iterrows():
        found = table.loc["model"].xs("value", level=1)
        np.testing.assert_allclose(row, found, rtol=1e-12)
    pairs = [*zip(Y_LABELS.T, proba.T, strict=True)]
    given = {"sample_weight": weight}
    top = partial(expected_calibration_error, mode="top_label", **given)
    by_hand = {
        "accuracy": [np.average(y == (p > 0.5), weights=weight) for y, p in pairs],
        "log_loss": [log_loss(y, p, **given) for y, p in pairs],
        "brier": [np.average((y - p) ** 2, weights=weight) for y, p in pairs],
        "auc": [roc_auc_score(y, p, **given) for y, p in pairs],
        "ece": [expected_calibration_error(y, p, **given) for y, p in pairs],
        "top_ece": [top(y, np.column_stack([1 - p, p])) for y, p in pairs],
    }
    for name, values in by_hand.items():
        assert table.loc["model", name]["value"] == pytest.approx(np.mean(values))
    draws = {**FAST, "random_state": np.random.RandomState(0).randint(2**31 - 1)}
    for name, metric in {"ece": metrics["ece"], "auc": roc_auc_score}.items():
        data = metric, Y_LABELS, proba
        expected = per_label(*data, confidence_level=0.95, **given, **draws)
        found = table.loc["model", name].to_numpy()
        np.testing.assert_allclose(found, expected.loc["macro"], rtol=1e-9)


def test_classifiers_and_seeds_of_several_labels():
    """Two arrays with two columns are two seeds, unless their rows sum to one."""
    proba = ARRAYS.predict_proba(X_LABELS)
    rows = {"model": ARRAYS, "seeds": [proba, proba**2], "first": proba}
    options = {"metrics": ["neg_brier_score"], "n_resamples": 0}
    table = compare(rows, X_LABELS, Y_LABELS, **options)["brier_score"]["value"]
    each = [np.mean((Y_LABELS - p) ** 2) for p in rows["seeds"]]
    expected = [each[0], np.mean(each), each[0]]
    np.testing.assert_allclose(table, expected, rtol=1e-12)


def test_bad_data_of_several_labels():
    proba = ARRAYS.predict_proba(X_LABELS)
    frame = pd.DataFrame(Y_LABELS, columns=["a", "b"])
    for row, y, message in [
        (
            proba[:, 0],
            Y_LABELS,
            r"estimators\['x'\] must have shape \(n_samples, n_lab",
        ),
        (proba[:9], Y_LABELS, r"y must contain 0 or 1 .* \(9, 2\), got \(12, 2\)"),
        (proba, 2 * Y_LABELS, r"y must contain only zeros and ones"),
        (2 * proba, Y_LABELS, r"estimators\['x'\] must lie in \[0, 1\]"),
        (pd.DataFrame(proba, columns=["b", "a"]), frame, r"order of the labels, \['a'"),
        (LISTS, Y_LABELS[:, 0], r"estimator must predict one label for each sample"),
    ]:
        with pytest.raises(ValueError, match=message):
            compare({"x": row}, X_LABELS, y, **FAST)
