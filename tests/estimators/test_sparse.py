"""Sparse X is converted to dense tensors one batch at a time."""

import pickle
import tracemalloc
from functools import cache

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from skorch.dataset import Dataset
from skorch.helper import predefined_split

from sklearn_calib import (
    CalibratedClassifier,
    NeuralClassifier,
    PredictionSetClassifier,
    RefCalClassifier,
    SelectiveClassifier,
)
from sklearn_calib.datasets import FeatureCorruption, Mixup

rng = np.random.default_rng(0)
SPARSE = sp.random_array((130, 12), density=0.3, format="csr", rng=rng)
DENSE = SPARSE.toarray()
y = np.where(DENSE[:, :6].sum(1) > DENSE[:, 6:].sum(1), "left", "right")
NET = NeuralClassifier(module__hidden_sizes=(8,), max_epochs=2, random_state=0)


def outputs(estimator, X, **fit_params):
    """Return what a clone predicts for X after it was fitted to it."""
    fitted = clone(estimator).fit(X, y, **fit_params)
    return fitted.predict_proba(X), fitted.decision_function(X), fitted.predict(X)


@cache
def outputs_of_dense():
    return outputs(NET, DENSE)


def assert_same(sparse, dense):
    for one, other in zip(sparse, dense, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "convert",
    [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_array, sp.dok_array,
     sp.lil_matrix, pd.DataFrame.sparse.from_spmatrix],
)  # fmt: skip
def test_every_format_gives_the_predictions_of_dense_data(convert):
    assert_same(outputs(NET, convert(SPARSE)), outputs_of_dense())


@pytest.mark.parametrize(
    "params",
    [
        {"early_stopping": True, "use_caching": False},
        {"loss": "adafocal", "loss__n_bins": 4, "refit": True},
        {"loss": "crl"},
        {"batch_transform": Mixup()},
        {"iterator_train__drop_last": True},
        {"dtype": "float64", "class_weight": "balanced"},
        {"train_split": predefined_split(Dataset(SPARSE, y))},
    ],
)
def test_every_way_to_train_takes_sparse_data(params):
    net = clone(NET).set_params(**params)
    assert_same(outputs(net, SPARSE), outputs(net, DENSE))


def test_weights_and_partial_fit():
    weight = rng.integers(0, 3, len(y))
    assert_same(
        outputs(NET, SPARSE, sample_weight=weight),
        outputs(NET, DENSE, sample_weight=weight),
    )
    net = clone(NET).partial_fit(SPARSE[:70], y[:70], classes=["left", "right"])
    net = pickle.loads(pickle.dumps(net)).partial_fit(SPARSE[70:], y[70:])
    twin = clone(NET).partial_fit(DENSE[:70], y[:70], classes=["left", "right"])
    twin.partial_fit(DENSE[70:], y[70:])
    np.testing.assert_array_equal(net.predict_proba(DENSE), twin.predict_proba(SPARSE))


def test_memory_is_that_of_a_batch():
    """The dense data have 40 MB, and a batch has 2.6 MB."""
    n_samples, n_features = 2_000, 5_000
    X = sp.random_array((n_samples, n_features), density=1e-3, format="csr", rng=rng)
    net = NeuralClassifier(
        max_epochs=1, early_stopping=True, random_state=0, module__hidden_sizes=()
    )
    tracemalloc.start()
    net.fit(X, np.arange(n_samples) % 2).predict(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


def test_one_hot_columns_in_a_pipeline():
    X = pd.DataFrame({"plan": y, "age": rng.normal(size=len(y))})
    columns = make_column_transformer(
        (OneHotEncoder(), ["plan"]), (StandardScaler(), ["age"]), sparse_threshold=1
    )
    net = NeuralClassifier(max_epochs=6, lr=0.05, random_state=0)
    pipe = make_pipeline(columns, net).fit(X, y)
    assert sp.issparse(pipe[0].transform(X))
    assert pipe.score(X, y) == 1


TEXTS = np.array(["good film", "fine film", "bad film", "poor film"] * 10)
TASTE = np.array(["up", "up", "down", "down"] * 10)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda pipe: pipe,
        lambda pipe: CalibratedClassifier(pipe, None, cv=2),
        lambda pipe: PredictionSetClassifier(pipe, cv=2),
        lambda pipe: SelectiveClassifier(pipe, coverage=0.5, abstain_label="?", cv=2),
        lambda pipe: GridSearchCV(pipe, {"neuralclassifier__lr": [0.1]}, cv=2),
        lambda pipe: make_pipeline(pipe[0], CalibratedClassifier(pipe[1], None, cv=2)),
    ],
)
def test_texts_in_a_pipeline(wrap):
    net = clone(NET).set_params(module__hidden_sizes=(), lr=0.3)
    model = wrap(make_pipeline(TfidfVectorizer(), net)).fit(TEXTS, TASTE)
    predicted = model.predict(TEXTS)
    assert (predicted[predicted != "?"] == TASTE[predicted != "?"]).all()
    assert cross_val_score(model, TEXTS, TASTE, cv=2).min() > 0.9


@pytest.mark.parametrize("params", [
    {"augment": None}, {}, {"augment_head": FeatureCorruption()},
    {"loss": "adafocal", "loss__n_bins": 4},
])  # fmt: skip
def test_both_stages_of_refcal_take_sparse_data(params):
    quick = RefCalClassifier(
        encoder__hidden_sizes=(8,), n_projection=4, random_state=0,
        refine__max_epochs=1, head__max_epochs=2, **params,
    )  # fmt: skip
    assert_same(outputs(quick, SPARSE), outputs(quick, DENSE))


def test_values_and_shape_are_checked():
    broken = SPARSE.copy()
    broken.data[3] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        clone(NET).fit(broken, y)
    with pytest.raises(ValueError, match="X has 5 features, but NeuralClassifier"):
        clone(NET).fit(SPARSE, y).predict(SPARSE[:, :5])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        clone(NET).fit(SPARSE[:9], y)
