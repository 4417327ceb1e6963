"""Stored probabilities in tables, and how the tables are printed."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from sklearn_calib import CalibratedClassifier, TemperatureScaling
from sklearn_calib.evaluation import calibration_report, compare
from sklearn_calib.metrics import expected_calibration_error

RNG = np.random.default_rng(0)
LABELS = np.array(["plum", "apple", "pear"])
CODES = np.arange(30) % 3
X = np.eye(3)[CODES] + RNG.normal(size=(30, 3))
Y = LABELS[CODES]
MODEL = LogisticRegression().fit(X[::2], Y[::2])
X_TEST, Y_TEST = X[1::2], Y[1::2]
PROBA = MODEL.predict_proba(X_TEST)
FEW = X_TEST[:6], Y_TEST[:6], PROBA[:6]
FAST = {"n_resamples": 2, "random_state": 0}


@pytest.mark.parametrize(
    "form",
    [
        lambda p: p,
        lambda p: p.tolist(),
        lambda p: pd.DataFrame(p, index=np.arange(len(p)) + 7),
        lambda p: torch.tensor(p, requires_grad=True),
    ],
)
def test_stored_probabilities_have_the_row_of_their_classifier(form):
    X, y, proba = FEW
    stored = {"stored": form(proba)}
    rows = {**stored, "model": MODEL}
    options = {"metrics": ["accuracy", "neg_log_loss", "neg_ece"], **FAST}
    table = compare(rows, X, y, **options)
    assert list(table.index) == ["stored", "model"]
    np.testing.assert_allclose(table.loc["stored"], table.loc["model"], rtol=1e-12)
    alone = compare(stored, None, y, **options)
    pd.testing.assert_frame_equal(alone, table.loc[["stored"]], check_frame_type=False)


def test_columns_of_stored_probabilities_are_labels():
    order = [2, 0, 1]
    options = {"labels": MODEL.classes_[order], **FAST}
    X, y, proba = FEW
    rows = {"stored": proba[:, order], "model": MODEL}
    table = compare(rows, X, y, **options)
    np.testing.assert_allclose(table.loc["stored"], table.loc["model"], rtol=1e-12)
    # A class may then be absent.
    some = y != "pear"
    rows, metrics = {"stored": proba[some][:, order]}, ["accuracy", "neg_ece"]
    compare(rows, None, y[some], metrics=metrics, **options)


def test_names_of_columns_in_another_order_are_refused():
    X, y, proba = FEW
    frame = pd.DataFrame(proba, columns=MODEL.classes_)
    other = frame[LABELS]
    with pytest.raises(ValueError, match=r"= estimators\['stored'\]\[\['apple', 'p"):
        compare({"stored": other}, None, y, **FAST)
    rows = {"stored": other, "model": MODEL}
    table = compare(rows, X, y, labels=LABELS, **FAST)
    np.testing.assert_allclose(table.loc["stored"], table.loc["model"], rtol=1e-12)
    pd.testing.assert_frame_equal(
        compare({"stored": frame}, None, y, **FAST), table.loc[["stored"]]
    )


def test_one_column_is_the_positive_class():
    y = FEW[1] == "plum"
    proba = FEW[2][:, 2]
    both = np.column_stack([1 - proba, proba])
    metrics = ["accuracy", "roc_auc", "neg_ece", "neg_l2_calibration_error"]
    rows = {"1-d": proba, "column": proba[:, None], "both": both}
    table = compare(rows, None, y, metrics=metrics, **FAST)
    for name in ("column", "both"):
        np.testing.assert_allclose(table.loc[name], table.loc["1-d"], rtol=1e-9)


def test_a_row_without_the_calibrator():
    """The row of the classifier within, for frozen classifiers and for ensembles."""
    frozen = CalibratedClassifier(FrozenEstimator(MODEL), TemperatureScaling())
    frozen.fit(X[::2], Y[::2])
    rows = {"raw": frozen.uncalibrated(), "scaled": frozen, "model": MODEL}
    table = compare(rows, X_TEST, Y_TEST, metrics=["neg_log_loss"], n_resamples=0)
    values = table["log_loss", "value"]
    assert values["raw"] == pytest.approx(values["model"])
    assert values["raw"] != pytest.approx(values["scaled"], rel=1e-6)

    for estimator in (GaussianNB(), LogisticRegression()):
        model = CalibratedClassifier(estimator, TemperatureScaling(), cv=3).fit(X, Y)
        before = model.predict_proba(X)
        plain = model.uncalibrated()
        parts = [
            pair.estimator.predict_proba(X) for pair in plain.calibrated_classifiers_
        ]
        np.testing.assert_allclose(plain.predict_proba(X), np.mean(parts, axis=0))
        np.testing.assert_array_equal(model.predict_proba(X), before)
        assert isinstance(model.calibrator, TemperatureScaling)
    with pytest.raises(NotFittedError):
        CalibratedClassifier(GaussianNB(), None).uncalibrated()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"a": MODEL}, "X must contain the samples to predict, got None .*for 'a'"),
        ({"a": PROBA[:9]}, r"estimators\['a'\] must contain one row .* 9 rows and 15"),
        ({"a": PROBA + 0.5}, r"estimators\['a'\] must"),
        ({"a": np.full((15, 3), np.nan)}, r"estimators\['a'\] must be finite"),
        ({"a": Y_TEST}, r"estimators\['a'\] must contain probabilities"),
        (
            {"a": PROBA[:, 0]},
            r"y must contain 2 distinct labels.*got \['apple', .*Pass",
        ),
        ({"a": None}, "estimators must be arrays .*got NoneType for 'a'"),
        ({"a": make_pipeline(RidgeClassifier())}, "estimators .*got Pipeline for 'a'"),
    ],
)
def test_bad_stored_probabilities(rows, message):
    with pytest.raises(ValueError, match=message):
        compare(rows, None, Y_TEST)


def test_top_label_data():
    """A confidence and whether it was correct have the error of the predicted class."""
    confidence = PROBA.max(axis=1)
    correct = MODEL.classes_[PROBA.argmax(axis=1)] == Y_TEST
    error = expected_calibration_error(correct, confidence, labels=[False, True])
    assert error == expected_calibration_error(Y_TEST, PROBA)


@pytest.mark.parametrize("n_resamples", [0, 5])
def test_one_column_for_each_metric(n_resamples):
    _, y, proba = FEW
    table = compare({"a": proba}, None, y, n_resamples=n_resamples, random_state=0)
    cells = table.formatted(digits=2)
    assert list(cells.columns) == [
        "accuracy",
        "log_loss",
        "ece",
        "aurc",
        "refinement_auc",
    ]
    value, low, high = table.loc["a", "ece"]
    expected = f"{value:.2f} [{low:.2f}, {high:.2f}]" if n_resamples else f"{value:.2f}"
    assert cells.loc["a", "ece"] == expected
    # The three numbers are still there.
    assert isinstance(value, float)
    again = pickle.loads(pickle.dumps(table))
    assert repr(again) == repr(table)
    assert table.formatted().loc["a", "ece"] in table._repr_html_()


def test_parts_of_a_table():
    """Sorted and selected rows are printed alike, and single metrics as numbers."""
    _, y, proba = FEW
    table = compare({"a": proba, "b": proba}, None, y, **FAST)
    turned = table.sort_values(("ece", "value")).iloc[::-1]
    cells = table.formatted()
    assert repr(turned) == repr(cells.loc[turned.index])
    assert repr(table[["ece", "aurc"]]) == repr(cells[["ece", "aurc"]])
    for part in (table["ece"], table.xs("value", axis=1, level=1), table.T):
        assert repr(part) == repr(pd.DataFrame(part))
        assert part._repr_html_() == pd.DataFrame(part)._repr_html_()
    with pytest.raises(ValueError, match="'digits' parameter of ComparisonTable"):
        table.formatted(digits=-1)


def tables():
    _, y, proba = FEW
    yield compare({"a long name of a classifier": proba, "b": proba}, None, y, **FAST)
    for options in ({}, {"confidence_level": 0.9}, {"groups": np.arange(6) % 2}):
        yield calibration_report(y, proba, **FAST, **options)


def test_tables_are_printed_within_80_columns():
    """All columns are shown, also in a terminal that pandas takes for narrow."""
    for table in tables():
        text = str(table)
        assert max(map(len, text.splitlines())) <= 80
        assert "..." not in text
        names = {str(name) for name in table.columns.get_level_values(0)}
        assert names <= set(text.split())


def test_verbose(capfd):
    compare({"a": PROBA}, None, Y_TEST, metrics=["accuracy"], n_resamples=0, verbose=10)
    assert "Done" in "".join(capfd.readouterr())
