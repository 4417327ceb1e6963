"""Tables of classifiers and metrics."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, make_scorer, matthews_corrcoef
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC

from sklearn_calib.evaluation import compare
from sklearn_calib.metrics import (
    aurc_loss,
    bootstrap_interval,
    ece_interval,
    get_scorer,
    get_scorer_names,
)

X, CODES = make_classification(
    n_samples=400, n_informative=5, n_classes=3, flip_y=0.2, random_state=0
)
Y = np.array(["pear", "apple", "plum"])[CODES]
MODELS = {"bayes": GaussianNB(), "logistic": LogisticRegression()}
MODELS = {name: model.fit(X[::2], Y[::2]) for name, model in MODELS.items()}
DATA = X[1::2], Y[1::2]


def test_values_are_those_of_the_scorers():
    names = ["accuracy", "neg_log_loss", "roc_auc_ovr", "f1_macro", *get_scorer_names()]
    table = compare(MODELS, *DATA, metrics=names, n_resamples=0)
    assert list(table.index) == list(MODELS)
    for name in names:
        column = table[name.removeprefix("neg_")]
        for row, model in MODELS.items():
            sign = -1 if name.startswith("neg_") else 1
            expected = sign * get_scorer(name)(model, *DATA)
            assert column.loc[row, "value"] == pytest.approx(expected, rel=1e-12)
    assert table.drop("value", axis=1, level=1).isna().all(axis=None)


def test_intervals():
    """Of a calibration error the debiased one, of others the bootstrap's."""
    metrics = ["neg_ece", "neg_aurc", "neg_mce", "neg_classwise_ece"]
    options = {"n_resamples": 50, "confidence_level": 0.8}
    table = compare(MODELS, *DATA, metrics=metrics, random_state=3, **options)
    for name, model in MODELS.items():
        proba, labels = model.predict_proba(DATA[0]), model.classes_
        options["random_state"] = np.random.RandomState(3).randint(2**31 - 1)
        row = table.loc[name]
        expected = bootstrap_interval(aurc_loss, DATA[1], proba, **options)
        np.testing.assert_allclose(row["aurc"][["low", "high"]], expected)
        for column, mode in [("ece", "top_label"), ("classwise_ece", "classwise")]:
            expected = ece_interval(DATA[1], proba, mode=mode, labels=labels, **options)
            np.testing.assert_allclose(row[column][["low", "high"]], expected)
        assert row["mce"][["low", "high"]].isna().all()
        assert row["mce"]["value"] > 0


@pytest.mark.parametrize("n_classes", [2, 3])
def test_intervals_of_the_names_of_scikit_learn(n_classes):
    """Of two classes the positive one, of more the predicted one."""
    kept = n_classes > CODES
    model = GaussianNB().fit(X[kept][::2], Y[kept][::2])
    X_test, y_test = X[kept][1::2], Y[kept][1::2]
    metrics = ["neg_l2_calibration_error", "neg_isotonic_ece"]
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
        random_state=np.random.RandomState(3).randint(2**31 - 1),
    )
    np.testing.assert_allclose(table["l2_calibration_error"][["low", "high"]], expected)
    assert table["isotonic_ece"][["low", "high"]].isna().all()


def test_the_same_draws_for_all():
    twins = {"one": MODELS["bayes"], "two": MODELS["bayes"]}
    table = compare(twins, *DATA, n_resamples=20, random_state=0)
    np.testing.assert_array_equal(table.loc["one"], table.loc["two"])
    again = compare(twins, *DATA, n_resamples=20, random_state=0, n_jobs=2)
    np.testing.assert_array_equal(table, again)
    other = compare(twins, *DATA, n_resamples=20, random_state=1)
    assert not np.array_equal(table, other)


def test_weights_are_repetitions():
    weight = np.arange(len(DATA[1])) % 3
    metrics = ["accuracy", "neg_ece", "neg_aurc"]
    table = compare(MODELS, *DATA, metrics=metrics, sample_weight=weight, n_resamples=0)
    repeated = [array.repeat(weight, axis=0) for array in DATA]
    expected = compare(MODELS, *repeated, metrics=metrics, n_resamples=0)
    np.testing.assert_allclose(table, expected, rtol=1e-9)


def test_names_of_columns_and_scorers_of_ones_own():
    metrics = {"NLL": "neg_log_loss", "MCC": make_scorer(matthews_corrcoef)}
    table = compare(
        {"bayes": MODELS["bayes"]},
        *DATA,
        metrics=metrics,
        n_resamples=30,
        random_state=0,
    )
    assert list(table.columns.unique(0)) == ["NLL", "MCC"]
    model = MODELS["bayes"]
    expected = log_loss(DATA[1], model.predict_proba(DATA[0]), labels=model.classes_)
    assert table["NLL"]["value"].item() == pytest.approx(expected)
    expected = matthews_corrcoef(DATA[1], model.predict(DATA[0]))
    assert table["MCC"]["value"].item() == pytest.approx(expected)
    for name in metrics:
        low, high = table.loc["bayes", name][["low", "high"]]
        assert low < table.loc["bayes", name]["value"] < high


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": ["neg_ecce"]}, "Did you mean 'neg_ece'"),
        ({"metrics": "accuracy"}, "'metrics' parameter of compare must be"),
        ({"n_resamples": -1}, "'n_resamples' parameter"),
        ({"confidence_level": 95}, "'confidence_level' parameter"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        compare(MODELS, *DATA, **options)


def test_classifier_without_probabilities():
    models = {"svm": SVC().fit(*DATA)}
    with pytest.raises(ValueError, match=r"predict_proba, got SVC for 'svm'.*Wrap"):
        compare(models, *DATA)


def test_estimators_without_names():
    with pytest.raises(TypeError, match=r"estimators must be a dict.*got list"):
        compare([MODELS["bayes"]], *DATA)
