"""Parameters of `RefCalClassifier`: search, memory and errors."""

from functools import cache

import numpy as np
import pytest
import torch
from joblib import Memory
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch.callbacks import Callback

from sklearn_calib import RefCalClassifier
from sklearn_calib.estimators import MLP
from sklearn_calib.losses import FocalLoss

X, y = make_classification(
    n_samples=120, n_informative=6, n_classes=3, class_sep=2, random_state=0
)
QUICK = RefCalClassifier(
    encoder__hidden_sizes=(8,), n_projection=8, random_state=0,
    refine__max_epochs=1, head__max_epochs=2,
)  # fmt: skip


class CountRuns(Callback):
    """Count the trainings, in all copies."""

    n_runs = 0

    def on_train_begin(self, *args, **kwargs):
        type(self).n_runs += 1


@pytest.fixture
def runs():
    CountRuns.n_runs = 0
    return lambda: CountRuns.n_runs


@pytest.fixture
def remembering(tmp_path):
    memory = Memory(tmp_path, verbose=0)
    return clone(QUICK).set_params(memory=memory, refine__callbacks=[CountRuns()])


def test_a_search_over_losses_trains_stage_1_once_a_fold(remembering, runs):
    """Three losses, two folds, and the refit on all data."""
    grids = [
        {"loss": ["cross_entropy", "brier"], "head__lr": [0.01]},
        {"loss": ["focal"], "loss__gamma": [1.0]},
    ]
    search = GridSearchCV(remembering, grids, cv=2, error_score="raise").fit(X, y)
    assert runs() == 3
    assert len(search.cv_results_["params"]) == 3
    search.set_params(estimator__memory=None).fit(X, y)
    assert runs() == 3 + 7


def test_memory_changes_nothing(remembering, tmp_path):
    expected = clone(QUICK).fit(X, y).predict_proba(X)
    for _ in range(2):
        proba = clone(remembering).fit(X, y).predict_proba(X)
        np.testing.assert_array_equal(proba, expected)
    by_path = clone(QUICK).set_params(memory=tmp_path / "other").fit(X, y)
    np.testing.assert_array_equal(by_path.predict_proba(X), expected)


def test_memory_knows_an_encoder_by_its_weights(remembering, runs):
    encoder = MLP(20, None, hidden_sizes=(8,))
    model = RefCalClassifier(
        encoder, memory=remembering.memory, refine__callbacks=[CountRuns()],
        refine__max_epochs=1, head__max_epochs=1, random_state=0,
    )  # fmt: skip
    for _ in range(2):
        clone(model).fit(X, y)
    assert runs() == 1
    with torch.no_grad():
        encoder[0].bias += 1
    clone(model).fit(X, y)
    assert runs() == 2


@cache
def fitted(memory):
    """Return a fitted model that remembers its stage 1."""
    params = {"memory": memory, "refine__callbacks": [CountRuns()]}
    return clone(QUICK).set_params(**params).fit(X, y)


def runs_after(change, memory):
    """Return how often stage 1 is trained by a fit with other parameters."""
    model = clone(fitted(memory)).set_params(**change)
    CountRuns.n_runs = 0
    model.fit(X, y)
    return CountRuns.n_runs


@pytest.mark.parametrize(
    "change",
    [
        {"refine_loss": "refinement"},
        {"temperature": 0.2},
        {"n_projection": 7},
        {"random_state": 1},
        {"dtype": "float64"},
        {"augment": None},
        {"refine__lr": 0.1},
        {"encoder__hidden_sizes": (9,)},
    ],
    ids=str,
)
def test_what_concerns_stage_1_trains_it_anew(memory, change):
    assert runs_after(change, memory) == 1


@pytest.mark.parametrize(
    "change", [{"loss": "brier"}, {"head__lr": 0.1}, {"head__max_epochs": 1}], ids=str
)
def test_what_does_not_concern_stage_1_leaves_it(memory, change):
    assert runs_after(change, memory) == 0


def test_loss_parameters():
    model = clone(QUICK).set_params(loss="focal", loss__gamma=5.0)
    assert model.get_params()["loss__gamma"] == 5.0
    assert model.get_params()["loss__reduction"] == "mean"
    assert "loss__reduction" not in model.get_params(deep=False)
    assert model.fit(X, y).head_.criterion_.gamma == 5.0
    model.set_params(loss="brier")
    assert "loss__gamma" not in model.get_params()
    given = clone(QUICK).set_params(loss=FocalLoss(gamma=3.0)).fit(X, y)
    assert given.head_.criterion_.gamma == 3.0


def test_in_a_pipeline():
    pipe = make_pipeline(StandardScaler(), clone(QUICK))
    pipe.set_params(refcalclassifier__head__max_epochs=3).fit(X, y)
    assert len(pipe[-1].history_) == 3
    assert pipe.predict_proba(X).shape == (120, 3)


def test_repr():
    model = RefCalClassifier(loss="focal", refine__lr=0.1)
    assert repr(model) == "RefCalClassifier(loss='focal', refine__lr=0.1)"


def fit(X=X, y=y, **params):
    params = {"refine__max_epochs": 1, "head__max_epochs": 1, **params}
    return RefCalClassifier(**params).fit(X, y)


def replaced(value):
    array = X.copy()
    array[1, 1] = value
    return array


SEQUENCES = X.reshape(120, 5, 4)
BAD = {
    "nan": (lambda: fit(replaced(np.nan)), ValueError, "Input X contains NaN"),
    "sparse nan": (
        lambda: fit(csr_array(replaced(np.nan))), ValueError, "Input X contains NaN",
    ),
    "several inputs": (
        lambda: fit({"a": X, "b": X}), TypeError,
        r"X must be an array for RefCalClassifier, got a dict of \['a', 'b'\]",
    ),
    "one class": (lambda: fit(y=0 * y), ValueError, "y must hold at least 2 classes"),
    "columns": (
        lambda: fit().predict(X[:, :2]), ValueError, "X has 2 features, but RefCalCl",
    ),
    "before fit": (lambda: RefCalClassifier().transform(X), NotFittedError, "not fit"),
    "weights": (
        lambda: clone(QUICK).fit(X, y, sample_weight=-np.ones(120)), ValueError,
        "sample_weight must be non-negative",
    ),
    "loss": (lambda: fit(loss="focl"), ValueError, "Did you mean 'focal'"),
    "loss parameter": (
        lambda: fit(loss="focal", loss__gama=1), ValueError, "Did you mean 'gamma'",
    ),
    "set loss parameter": (
        lambda: RefCalClassifier().set_params(loss__gamma=1), ValueError,
        "'cross_entropy' has no parameter 'gamma'",
    ),
    "refine loss": (
        lambda: fit(refine_loss="simclr"), ValueError, "The 'refine_loss' parameter",
    ),
    "temperature": (lambda: fit(temperature=0), ValueError, "The 'temperature' param"),
    "encoder name": (lambda: fit(encoder="mlp"), ValueError, "The 'encoder' param"),
    "projection": (lambda: fit(n_projection=0), ValueError, "The 'n_projection' para"),
    "augment": (lambda: fit(augment="flip"), ValueError, "The 'augment' parameter"),
    "no augment for sequences": (
        lambda: fit(SEQUENCES, encoder=MLP), ValueError,
        "augment must be given unless .* got X of 3 dimensions. Pass",
    ),
    "no encoder for sequences": (
        lambda: fit(SEQUENCES, augment=None), ValueError,
        "encoder must be given unless .* got X of 3 dimensions. Pass a torch.nn.Modul",
    ),
    "encoder": (
        lambda: fit(encoder=torch.nn.Unflatten(1, (5, 4))), ValueError,
        r"encoder must return embeddings .* got shape \(2, 5, 4\).*Flatten",
    ),
    "views": (
        lambda: fit(augment=lambda batch: batch), ValueError,
        r"augment must return views of shape \(120, n_views, ...\), got \(120, 20\)",
    ),
    "name": (lambda: fit(temperatur=1), TypeError, "Did you mean 'temperature'"),
    "prefix": (lambda: fit(stage__lr=1), TypeError, "those with a prefix in"),
    "stage 1": (
        lambda: fit(refine__early_stopping=True), TypeError,
        "refine__... must begin with one of .* got 'early_stopping'",
    ),
    "stage 2": (
        lambda: fit(head__max_epoch=1), TypeError, "Did you mean 'max_epochs'",
    ),
    "set stage 2": (
        lambda: RefCalClassifier().set_params(head__module=MLP), TypeError,
        "head__... must begin with one of .* got 'module'",
    ),
    "set name": (
        lambda: RefCalClassifier().set_params(lr=1), ValueError, "Invalid parameter",
    ),
    "lr": (lambda: fit(refine__lr=0), ValueError, "refine__...: The 'lr' parameter"),
    "head lr": (lambda: fit(head__lr=0), ValueError, "head__...: The 'lr' parameter"),
    "partial_fit": (
        lambda: clone(QUICK).set_params(head__early_stopping=True).partial_fit(X, y),
        ValueError, "early_stopping must be False for partial_fit",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("action", "exception", "message"),
    [pytest.param(*row, id=name) for name, row in BAD.items()],
)
def test_bad_input(action, exception, message):
    with pytest.raises(exception, match=message):
        action()


def test_a_fit_that_fails_changes_no_stage():
    model = clone(QUICK).fit(X, y)
    before = model.predict_proba(X)
    model.set_params(head__validation_fraction=0.001, refine__max_epochs=2)
    with pytest.raises(ValueError, match=r"validation_fraction=0\.001 must"):
        model.fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_weights_of_a_loss_that_takes_none(runs):
    model = clone(QUICK).set_params(
        loss=torch.nn.CrossEntropyLoss, refine__callbacks=[CountRuns()]
    )
    with pytest.raises(TypeError, match="sample_weight must be None for the loss"):
        model.fit(X, y, sample_weight=np.ones(120))
    assert runs() == 0


@pytest.mark.parametrize(
    "params", [{"loss": "focl"}, {"head__lr": 0}, {"head__max_epoch": 1}], ids=str
)
def test_stage_2_is_checked_before_stage_1_is_trained(params, runs):
    model = clone(QUICK).set_params(refine__callbacks=[CountRuns()])
    vars(model).update(params)
    with pytest.raises((TypeError, ValueError)):
        model.fit(X, y)
    assert runs() == 0
