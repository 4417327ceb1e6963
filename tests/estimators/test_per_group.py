"""CalibratedClassifier with a calibrator of groups."""

import pickle
from functools import cache

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from dask.array import from_array
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    StratifiedKFold,
    cross_validate,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import sklearn_calib
from sklearn_calib import CalibratedClassifier, NeuralClassifier
from sklearn_calib.calibrators import (
    PerGroupCalibrator,
    PlattScaling,
    TemperatureScaling,
    VennAbers,
)
from sklearn_calib.deployment import PriorShiftClassifier
from sklearn_calib.metrics import expected_calibration_error, per_group

N = 300


def make_table():
    """Return a table with groups that the classifier does not see, and labels."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "a": rng.normal(size=N),
            "b": rng.normal(size=N),
            "sex": rng.choice(["f", "m", None], size=N),
            "site": rng.integers(3, size=N),
        }
    )
    table.index = rng.integers(5, size=N)
    bias = np.where(table["sex"] == "m", 3.0, -2.0)
    odds = table["a"].to_numpy() + table["b"].to_numpy() + bias
    return table, np.where(odds + rng.logistic(size=N) > 0, "yes", "no")


X, Y = make_table()
SEX = X["sex"].to_numpy()


def without_groups(table):
    return table[["a", "b"]]


BASE = make_pipeline(FunctionTransformer(without_groups), LogisticRegression())
COLUMN = CalibratedClassifier(
    BASE,
    PerGroupCalibrator(PlattScaling(), lambd=1.0),
    cv=2,
    n_repeats=1,
    groups="sex",
)
PASSED = clone(COLUMN).set_params(groups=None)


@cache
def of_column():
    """Return the classifier whose groups are a column, fitted."""
    return clone(COLUMN).fit(X, Y)


def logits_of(pair, data):
    """Return the logits of the classifier of a fold."""
    odds = pair.estimator.decision_function(data)
    return np.column_stack([0 * odds, odds])


def expected_proba(model):
    """Return the probabilities of the fitted parts, one after the other."""
    pairs = model.calibrated_classifiers_
    probas = [
        pair.calibrator.predict_proba(logits_of(pair, X), groups=SEX) for pair in pairs
    ]
    return np.mean(probas, axis=0)


@pytest.mark.parametrize("ensemble", [True, False])
def test_groups_are_a_column_or_passed(ensemble, memory):
    params = {"ensemble": ensemble, "memory": memory}
    column = clone(COLUMN).set_params(**params).fit(X, Y)
    proba = column.predict_proba(X)
    np.testing.assert_allclose(proba, expected_proba(column), rtol=1e-6)
    for groups in (["sex"], 2, -2, (2,), [np.int64(2)]):
        model = clone(column).set_params(groups=groups).fit(X, Y)
        np.testing.assert_array_equal(model.predict_proba(X), proba)
    model = clone(PASSED).set_params(**params).fit(X, Y, groups=SEX)
    np.testing.assert_array_equal(model.predict_proba(X, groups=SEX), proba)
    np.testing.assert_array_equal(model.predict(X, groups=SEX), column.predict(X))
    plain = column.uncalibrated()
    found = plain.predict_proba(X)
    np.testing.assert_array_equal(found, model.uncalibrated().predict_proba(X))
    assert log_loss(Y, proba) < log_loss(Y, found) - 0.05
    errors = [
        per_group(expected_calibration_error, Y, each, groups=SEX)["value"].max()
        for each in (found, proba)
    ]
    assert errors[1] < 0.5 * errors[0]
    assert column.calibrated_classifiers_[0].calibrator.groups_ == ["f", "m", None]


def test_each_fold_uses_its_own_rows():
    """The calibrator of a fold is fitted to its test part."""
    cv = [(np.arange(100, N), np.arange(100)), (np.arange(100), np.arange(100, N))]
    model = clone(COLUMN).set_params(cv=cv).fit(X, Y)
    for pair, (train, test) in zip(model.calibrated_classifiers_, cv, strict=True):
        base = clone(BASE).fit(X.iloc[train], Y[train])
        odds = base.decision_function(X.iloc[test])
        alone = clone(COLUMN.calibrator).set_params(from_logits=True)
        alone.fit(odds, Y[test], groups=SEX[test])
        np.testing.assert_allclose(pair.calibrator.coef_, alone.coef_)
        np.testing.assert_allclose(pair.calibrator.intercept_, alone.intercept_)


def test_several_columns_and_unseen_groups():
    model = clone(COLUMN).set_params(groups=["sex", "site"], ensemble=False).fit(X, Y)
    (pair,) = model.calibrated_classifiers_
    assert len(pair.calibrator.groups_) == 9
    new = X.assign(sex="unknown")
    expected = pair.calibrator.calibrator_.predict_proba(logits_of(pair, new))
    np.testing.assert_allclose(model.predict_proba(new), expected)


def test_arrays_of_every_kind():
    """Sparse matrices, lists, dicts of columns, and arrays of numbers."""
    numbers = np.column_stack([X[["a", "b"]], SEX == "m"]).astype(float)
    model = CalibratedClassifier(
        GaussianNB(), COLUMN.calibrator, groups=2, cv=2, n_repeats=1
    )
    proba = model.fit(numbers, Y).predict_proba(numbers)
    found = clone(model).fit(numbers.tolist(), Y).predict_proba(numbers.tolist())
    np.testing.assert_allclose(found, proba)
    lazy = model.predict_proba(from_array(numbers, chunks=(500, 3)))
    np.testing.assert_allclose(lazy.compute(), proba)
    logistic = model.set_params(estimator=LogisticRegression())
    proba = logistic.fit(numbers, Y).predict_proba(numbers)
    sparse = csr_matrix(numbers)
    np.testing.assert_allclose(logistic.fit(sparse, Y).predict_proba(sparse), proba)
    with pytest.raises(ValueError, match="X must have columns"):
        CalibratedClassifier(GaussianNB(), COLUMN.calibrator, groups=0).fit(
            numbers[:, :, None], Y
        )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"groups": "sx"}, r"got 'sx', and X has 4 columns with names.* mean 'sex'\?"),
        ({"groups": ["sex", 4]}, "groups must be columns of X, got 4, and X has 4 col"),
        ({"groups": -5}, "groups must be columns of X, got -5"),
        ({"groups": [1.5]}, "groups must be columns of X, got 1.5"),
        ({"groups": True}, "groups must be columns of X, got True"),
        ({"groups": []}, r"groups must be None or contain a column of X, got \[\]"),
        ({"groups": 1.5}, "'groups' parameter"),
        ({"groups": None}, "groups must be given for calibrator=PerGroupCalibrator"),
        (
            {"calibrator": PlattScaling()},
            r"groups must be None .* groups='sex' and calibrator=PlattScaling\(\)",
        ),
        ({"calibrator": None}, "groups must be None for a calibrator"),
        ({"calibrator": "auto"}, "groups must be None for a calibrator"),
        ({"calibrator": PerGroupCalibrator(lambd=-1)}, "'lambd' parameter"),
        ({"estimator": LinearSVC()}, "Margins, such as those of a support vector"),
    ],
)
def test_bad_parameters(params, message):
    model = clone(COLUMN).set_params(**params)
    data = X
    if "estimator" in params:
        data, model = X[["a", "b"]], model.set_params(groups="a")
    with pytest.raises(ValueError, match=message):
        model.fit(data, Y)


def test_groups_that_are_missing_or_not_used():
    model = clone(PASSED)
    with pytest.raises(ValueError, match=f"got 5 groups and {N} samples"):
        model.fit(X, Y, groups=SEX[:5])
    model.fit(X, Y, groups=SEX)
    with pytest.raises(ValueError, match=r"groups must be given .* to predict_"):
        model.predict_proba(X)
    with pytest.raises(ValueError, match="got 4 groups and 3 samples"):
        model.predict(X[:3], groups=SEX[:4])
    with pytest.raises(TypeError, match=r"takes X only.* got also \['group'\]"):
        model.predict_proba(X, groups=SEX, group=SEX)
    column = of_column()
    weight = np.arange(N) % 3
    assert model.score(X, Y, weight, groups=SEX) == column.score(X, Y, weight)
    for each in (column, model.uncalibrated()):
        with pytest.raises(TypeError, match=r"takes X only, .*\['groups'\]"):
            each.predict_proba(X, groups=SEX)
    with pytest.raises(ValueError, match="got 'sex', and X has 4 columns without na"):
        column.predict_proba(X.to_numpy())
    assert column.predict_interval(X, n_resamples=2).shape == (N, 2, 2)
    venn_abers = clone(COLUMN).set_params(calibrator__calibrator=VennAbers())
    with pytest.raises(AttributeError):
        venn_abers.fit(X, Y).predict_interval(X)
    numbers = np.column_stack([X[["a", "b"]], SEX == "m"]).astype(float)
    passed = CalibratedClassifier(GaussianNB(), COLUMN.calibrator, cv=2, n_repeats=1)
    passed.fit(numbers, Y, groups=SEX)
    with pytest.raises(TypeError, match=r"X must be in memory .* \['groups'\]"):
        passed.predict_proba(from_array(numbers), groups=SEX)
    indicator = (Y[:, None] == ["yes", "no"]).astype(int)
    with pytest.raises(ValueError, match="must be None or a PerLabelCalibrator"):
        passed.fit(numbers, indicator, groups=SEX)


def test_weights_memory_jobs_frozen_and_copies(tmp_path):
    weight = np.random.default_rng(0).integers(0, 3, size=N)
    fit_params = {"logisticregression__sample_weight": weight}
    frozen = FrozenEstimator(clone(BASE).fit(X, Y, **fit_params))
    model = clone(COLUMN).set_params(estimator=frozen)
    proba = model.fit(X, Y, weight).predict_proba(X)
    rows = np.arange(N).repeat(weight)
    repeated = clone(model).fit(X.iloc[rows], Y[rows]).predict_proba(X)
    np.testing.assert_allclose(proba, repeated, rtol=1e-6)
    expected = of_column().predict_proba(X)
    for params in ({"memory": tmp_path}, {"memory": tmp_path}, {"n_jobs": 2}):
        with joblib.parallel_config("threading"):
            found = clone(COLUMN).set_params(**params).fit(X, Y).predict_proba(X)
        np.testing.assert_array_equal(found, expected)
    again = pickle.loads(pickle.dumps(of_column()))
    np.testing.assert_array_equal(again.predict_proba(X), expected)


def test_cross_validation_search_and_other_wrappers(memory):
    column = clone(COLUMN).set_params(memory=memory)
    scores = cross_validate(column, X, Y, scoring="neg_log_loss", cv=2)["test_score"]
    plain = clone(column).set_params(calibrator=PlattScaling(), groups=None)
    worse = cross_validate(plain, X, Y, scoring="neg_log_loss", cv=2)["test_score"]
    assert (scores > worse).all()
    grid = [
        {"calibrator": [TemperatureScaling()], "groups": [None]},
        {"calibrator__lambd": [1e6, 1.0], "groups": ["sex", "site"]},
    ]
    search = GridSearchCV(column, grid, scoring="neg_log_loss", cv=2).fit(X, Y)
    assert search.best_params_ == {"calibrator__lambd": 1.0, "groups": "sex"}
    shift = PriorShiftClassifier(COLUMN, priors={"no": 0.5, "yes": 0.5}).fit(X, Y)
    assert shift.predict_proba(X).shape == (N, 2)


def test_metadata_routing():
    expected = of_column().predict_proba(X)
    folds = list(GroupKFold(2).split(X, Y, X["site"]))
    by_site = clone(COLUMN).set_params(cv=folds).fit(X, Y).predict_proba(X)
    with sklearn.config_context(enable_metadata_routing=True):
        # The calibrator requests groups; in a pipeline too.
        model = clone(PASSED).fit(X, Y, groups=SEX)
        np.testing.assert_array_equal(model.predict_proba(X, groups=SEX), expected)
        pipeline = make_pipeline("passthrough", clone(PASSED)).fit(X, Y, groups=SEX)
        np.testing.assert_array_equal(pipeline.predict_proba(X, groups=SEX), expected)
        # Without `scoring`, cross-validation passes them to `score`.
        scores = cross_validate(PASSED, X, Y, params={"groups": SEX}, cv=2)
        columns = cross_validate(COLUMN, X, Y, cv=2)
        np.testing.assert_array_equal(scores["test_score"], columns["test_score"])
        labels = pipeline.predict(X, groups=SEX)
        np.testing.assert_array_equal(labels, pipeline[-1].predict(X, groups=SEX))
        # Under another name, if the splitter has groups as well.
        calibrator = clone(COLUMN.calibrator).set_fit_request(groups="sex")
        calibrator.set_predict_proba_request(groups="sex")
        both = clone(PASSED).set_params(calibrator=calibrator, cv=GroupKFold(2))
        both.fit(X, Y, groups=X["site"], sex=SEX)
        np.testing.assert_array_equal(both.predict_proba(X, sex=SEX), by_site)
        # Groups in a column, and those of the splitter.
        column = clone(COLUMN).set_params(cv=GroupKFold(2)).fit(X, Y, groups=X["site"])
        np.testing.assert_array_equal(column.predict_proba(X), by_site)
        with pytest.raises(TypeError, match=r"unexpected argument.*groups"):
            column.predict_proba(X, groups=SEX)
        cv = StratifiedKFold(2)
        unused = clone(PASSED).set_params(calibrator=PlattScaling(), cv=cv)
        with pytest.raises(TypeError, match=r"unexpected argument.*groups"):
            unused.fit(X, Y, groups=SEX)
        weighted = clone(PASSED).set_params(
            estimator=GaussianNB().set_fit_request(sample_weight=True)
        )
        data, weight = X[["a", "b"]], np.arange(N) % 3
        weighted.fit(data, Y, sample_weight=weight, groups=SEX)
        found = weighted.predict_proba(data, groups=SEX)
    expected = clone(weighted).fit(data, Y, sample_weight=weight, groups=SEX)
    np.testing.assert_array_equal(found, expected.predict_proba(data, groups=SEX))


def test_around_a_network_in_a_file(tmp_path):
    numbers = np.column_stack([X[["a", "site"]], SEX == "m"]).astype(np.float32)
    net = NeuralClassifier(module__hidden_sizes=(2,), max_epochs=1, random_state=0)
    model = CalibratedClassifier(
        net, COLUMN.calibrator, cv=2, n_repeats=1, groups=[2, 1]
    )
    model.fit(numbers, (Y == "yes").astype(int))
    path = tmp_path / "model.safetensors"
    sklearn_calib.save(model, path)
    again = sklearn_calib.load(path)
    assert again.groups == [2, 1]
    np.testing.assert_array_equal(
        again.predict_proba(numbers), model.predict_proba(numbers)
    )


@pytest.mark.slow
@parametrize_with_checks(
    [
        CalibratedClassifier(
            LogisticRegression(), PerGroupCalibrator(TemperatureScaling()), groups=0
        )
    ]
)
@pytest.mark.filterwarnings("ignore:The temperature with the smallest log loss is")
def test_sklearn_checks(estimator, check):
    check(estimator.set_params(cv=2, n_repeats=1))
