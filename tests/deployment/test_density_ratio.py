"""`DensityRatioEstimator`: ratios by counting, held-out weights, and input."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import ShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from sklearn_calib import CalibratedClassifier, save
from sklearn_calib.calibrators import PlattScaling
from sklearn_calib.deployment import DensityRatioEstimator, estimate_performance

RNG = np.random.default_rng(0)
X_SOURCE, X_TARGET = RNG.normal(size=(400, 2)), RNG.normal([1, 0], size=(200, 2))
# Faster than the default calibrator, with an intercept.
PLATT = CalibratedClassifier(LogisticRegression(), PlattScaling())
FROZEN = FrozenEstimator(GaussianNB().fit(X_SOURCE, X_SOURCE[:, 0] > 0))


@pytest.fixture(scope="module")
def fitted():
    return DensityRatioEstimator(PLATT).fit(X_SOURCE, X_TARGET)


def test_ratio_of_frequencies():
    """The densities of a feature with two values are known by counting."""
    source, target = np.tile([[0, 0, 0, 1]], 1000), np.tile([[0, 1]], 1000)
    inner = CalibratedClassifier(LogisticRegression(C=1e6), PlattScaling())
    model = DensityRatioEstimator(inner).fit(source.T, target.T)
    expected = np.array([0.5 / 0.75, 0.5 / 0.25])
    assert_allclose(model.predict_weight([[0], [1]]), expected, rtol=0.01)
    weight = model.source_weight_
    for values, weights in ((source, weight), (target, model.target_weight_)):
        means = [weights[values[0] == value].mean() for value in (0, 1)]
        assert_allclose(means, expected, rtol=0.01)
    found = model.effective_n_samples_
    assert found == pytest.approx(weight.sum() ** 2 / (weight @ weight), rel=1e-12)
    # 3000 and 1000 samples with the expected weights.
    assert found == pytest.approx(4000**2 / (3000 * 4 / 9 + 1000 * 4), rel=0.01)


@pytest.mark.parametrize("estimator", [None, GaussianNB(), PLATT])
def test_ratio_of_gaussians(estimator):
    """Of the means 0 and 1, the logarithm of the ratio is x - 1/2."""
    rng = np.random.default_rng(0)
    X_source, X_target = rng.normal(size=(2000, 1)), rng.normal(1, size=(1000, 1))
    model = DensityRatioEstimator(estimator).fit(X_source, X_target)
    x = np.array([-1, 0, 1, 2])
    assert_allclose(np.log(model.predict_weight(x[:, None])), x - 0.5, atol=0.25)
    mean = np.average(X_source[:, 0], weights=model.source_weight_)
    assert mean == pytest.approx(1, abs=0.15)


def test_weights_of_source_samples_are_held_out():
    """The nearest neighbour knows which of the two samples a training sample is of."""
    nearest = CalibratedClassifier(KNeighborsClassifier(1), PlattScaling())
    model = DensityRatioEstimator(nearest).fit(X_SOURCE, X_TARGET)
    assert model.source_weight_.mean() == pytest.approx(1, abs=0.05)
    assert model.predict_weight(X_SOURCE).mean() < 0.8


def test_large_weights_are_reduced(fitted):
    plain = fitted.source_weight_
    assert fitted.predict_weight([[99, 0]]) == 20  # the root of 400
    assert plain.max() > 3
    limited = clone(fitted).set_params(max_weight=3).fit(X_SOURCE, X_TARGET)
    assert_array_equal(limited.source_weight_, np.minimum(plain, 3))
    assert limited.predict_weight([[99, 0]]) == 3
    assert limited.predict_weight([[-99, 0]]) > 0


def test_few_effective_samples_give_a_warning():
    message = "400 weighted samples are worth .* unweighted ones. Leave out features"
    for shift, max_weight in ((3, None), (1, 1e9)):
        X = X_TARGET + np.array([shift, 0])
        model = DensityRatioEstimator(PLATT, max_weight=max_weight)
        with pytest.warns(UserWarning, match=message):
            model.fit(X_SOURCE, X)
    with pytest.warns(UserWarning, match="29 weighted samples are worth"):
        DensityRatioEstimator(PLATT).fit(X_SOURCE[:29], X_SOURCE[29:99])


def test_estimated_performance_on_the_target():
    """Predictions are right more often for large x."""
    rng = np.random.default_rng(0)
    x = [rng.normal(shift, size=3000) for shift in (0, 1)]
    proba = [np.full((3000, 2), [0.2, 0.8]) for _ in x]
    y, y_new = (rng.uniform(size=3000) < 1 / (1 + np.exp(-each)) for each in x)
    model = DensityRatioEstimator(PLATT).fit(x[0][:, None], x[1][:, None])
    options = {"n_resamples": 200, "random_state": 0, "labels": [False, True]}
    for weight, is_right in ((None, False), (model.source_weight_, True)):
        reference = (y, proba[0]) if weight is None else (y, proba[0], weight)
        found = estimate_performance(proba[1], reference=reference, **options)
        low, high = found.interval
        assert (low < y_new.mean() < high) == is_right


# Input and use with scikit-learn


def test_tables_and_sparse_matrices(fitted):
    tables = [pd.DataFrame(X, columns=["a", "b"]) for X in (X_SOURCE, X_TARGET)]
    model = clone(fitted).fit(*tables)
    assert_allclose(model.source_weight_, fitted.source_weight_, rtol=1e-9)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    expected = fitted.predict_weight(X_TARGET)
    assert_allclose(model.predict_weight(tables[1]), expected, rtol=1e-9)
    lists = X_SOURCE.tolist(), X_TARGET.tolist()
    assert_allclose(
        clone(fitted).fit(*lists).predict_weight(lists[1]), expected, rtol=1e-9
    )
    sparse = csr_array(X_SOURCE), csr_array(X_TARGET)
    found = clone(fitted).fit(*sparse).predict_weight(sparse[1])
    assert_allclose(found, expected, rtol=1e-6)
    assert DensityRatioEstimator().fit(*sparse).source_weight_.shape == (400,)
    with pytest.raises(ValueError, match=r"X_target must have the columns .*'b'.*'c'"):
        clone(fitted).fit(tables[0], tables[1].rename(columns={"b": "c"}))
    with pytest.raises(ValueError, match=r"same type .* got ndarray and DataFrame"):
        clone(fitted).fit(tables[0], X_TARGET)
    polars = pytest.importorskip("polars")
    tables = [polars.from_pandas(table) for table in tables]
    assert_allclose(
        clone(fitted).fit(*tables).predict_weight(tables[1]), expected, rtol=1e-9
    )


@pytest.mark.parametrize("is_ordered", [False, True])
def test_categories_of_one_table_only(is_ordered):
    classifier = HistGradientBoostingClassifier(
        max_iter=2, categorical_features="from_dtype"
    )
    tables = [
        pd.DataFrame({"word": pd.Categorical(list(words) * 50, ordered=is_ordered)})
        for words in ("ab", "bc")
    ]
    model = DensityRatioEstimator(classifier, max_weight=9).fit(*tables)
    assert (model.predict_weight(tables[0])[:2].round() == [0, 1]).all()


def test_clone_pickle_and_routing(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.predict_weight(X_TARGET), fitted.predict_weight(X_TARGET))
    with config_context(enable_metadata_routing=True):
        routed = clone(fitted).fit(X_SOURCE, X_target=X_TARGET)
        assert str(fitted.get_metadata_routing()) == "{}"
    assert_array_equal(routed.source_weight_, fitted.source_weight_)
    assert fitted.n_features_in_ == 2
    with pytest.raises(TypeError, match="DensityRatioEstimator"):
        save(fitted, "ratio.json")


@pytest.mark.parametrize(
    ("estimator", "error", "message"),
    [
        (FROZEN, ValueError, ""),
        (CalibratedClassifier(GaussianNB(), None), ValueError, ""),
        (CalibratedClassifier(GaussianNB(), cv=ShuffleSplit(3)), ValueError, ""),
        (LinearRegression(), TypeError, "estimator must be a classifier"),
    ],
)
def test_classifiers_without_held_out_predictions(estimator, error, message):
    message = message or "(?s)estimator must have held-out predictions of all .*Pass a"
    with pytest.raises(error, match=message):
        DensityRatioEstimator(estimator).fit(X_SOURCE, X_TARGET)


def test_bad_input():
    with pytest.raises(NotFittedError):
        DensityRatioEstimator().predict_weight(X_TARGET)
    with pytest.raises(ValueError, match=r"'max_weight' parameter .*Got 0"):
        DensityRatioEstimator(max_weight=0).fit(X_SOURCE, X_TARGET)
    for n_source, n_target in ((400, 0), (1, 200)):
        with pytest.raises(
            ValueError, match=f"two samples, got {n_source} and {n_target}"
        ):
            DensityRatioEstimator().fit(X_SOURCE[:n_source], X_TARGET[:n_target])
    with pytest.raises(ValueError, match="dimension"):
        DensityRatioEstimator().fit(X_SOURCE, X_TARGET[:, :1])
