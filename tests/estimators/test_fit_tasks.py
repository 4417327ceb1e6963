"""Callbacks of scikit-learn, which follow the epochs of a net and the folds."""

import copy
import pickle
import sys
from importlib.util import module_from_spec, spec_from_file_location
from inspect import signature

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_calib import CalibratedClassifier, NeuralClassifier, estimators
from sklearn_calib._sklearn import fit_tasks
from sklearn_calib.estimators import PredictionSetClassifier, SelectiveClassifier

callback = pytest.importorskip(
    "sklearn.callback", reason="scikit-learn has callbacks since version 1.9"
)

X, codes = make_classification(
    120, n_informative=6, n_classes=3, flip_y=0.2, random_state=0
)
y = np.array(["cat", "dog", "eel"])[codes]
NET = NeuralClassifier(max_epochs=3, lr=0.01, random_state=0)


def monitor():
    return callback.ScoringMonitor(scoring="neg_log_loss")


def scores(log, task_name):
    """Return the scores of the tasks with a name."""
    rows = log.get_logs().data
    return [row["neg_log_loss"] for row in rows if row["task_name"] == task_name]


class Stop:
    """Callback that ends the training after a number of epochs."""

    def __init__(self, n_epochs):
        self.n_epochs = n_epochs

    def setup(self, **_):
        self.n_ended, self.is_open = 0, True

    def teardown(self, **_):
        self.is_open = False

    def on_fit_task_begin(self, *_):
        pass

    def on_fit_task_end(self, _, context):
        self.n_ended += context.task_name == "epoch"
        return self.n_ended == self.n_epochs


def test_the_net_of_each_epoch_is_that_of_a_shorter_training():
    log, weight = monitor(), np.random.default_rng(0).uniform(size=120)
    net = clone(NET).set_callbacks(log).fit(X, y, sample_weight=weight)
    expected = []
    for n_epochs in (1, 2, 3):
        plain = clone(NET).set_params(max_epochs=n_epochs)
        proba = plain.fit(X, y, sample_weight=weight).predict_proba(X)
        expected.append(-log_loss(y, proba, sample_weight=weight))
    assert scores(log, "epoch") == pytest.approx(expected, rel=1e-6)
    assert scores(log, "fit") == pytest.approx(expected[-1:], rel=1e-6)
    np.testing.assert_array_equal(net.predict_proba(X), proba)


def test_epochs_until_early_stopping_and_of_refit():
    log = monitor()
    net = clone(NET).set_params(
        max_epochs=50, lr=0.1, early_stopping=True, n_iter_no_change=2
    )
    net.set_callbacks(log).fit(X, y)
    assert len(scores(log, "epoch")) == len(net.history_) < 50
    assert scores(log, "fit") == [-log_loss(y, net.predict_proba(X))]
    net.set_params(refit=True).fit(X, y)
    n_epochs = len(net.validation_history_) + len(net.history_)
    assert len(scores(log, "epoch")) == n_epochs


def test_a_callback_can_stop_the_training():
    stop = Stop(2)
    net = clone(NET).set_callbacks(stop).fit(X, y)
    assert len(net.history_) == 2
    assert not stop.is_open
    shorter = clone(NET).set_params(max_epochs=2).fit(X, y)
    np.testing.assert_array_equal(net.predict_proba(X), shorter.predict_proba(X))


def test_callbacks_end_if_the_training_fails():
    stop = Stop(2)
    net = clone(NET).set_params(batch_transform=lambda *_: 1 / 0).set_callbacks(stop)
    before = vars(net).copy()
    with pytest.raises(ZeroDivisionError):
        net.fit(X, y)
    assert vars(net) == before
    assert not stop.is_open


@pytest.mark.parametrize(
    "estimator",
    [
        NET,
        CalibratedClassifier(GaussianNB()),
        PredictionSetClassifier(GaussianNB()),
        SelectiveClassifier(GaussianNB(), coverage=0.8),
    ],
)
def test_copies_keep_the_callbacks(estimator):
    stop = Stop(9)
    fitted = clone(estimator).set_callbacks(stop).fit(X, y)
    for twin in (clone(fitted), copy.copy(fitted), pickle.loads(pickle.dumps(fitted))):
        assert isinstance(twin._skl_callbacks[0], Stop)
    assert clone(fitted)._skl_callbacks == [stop]
    assert {*fitted.get_params()} == {*clone(estimator).fit(X, y).get_params()}
    assert not hasattr(fitted.set_callbacks(), "_skl_callbacks")


def test_progress_of_a_net_in_a_pipeline(capsys):
    pytest.importorskip("rich", reason="rich draws the progress bars")
    pipe = make_pipeline(StandardScaler(), clone(NET))
    pipe.set_callbacks(callback.ProgressBar()).fit(X, y)
    text = capsys.readouterr().out
    assert "fit-final-estimator | NeuralClassifier - fit" in text
    assert "100%" in text
    assert not hasattr(pipe[-1], "_skl_callbacks")


def test_folds_in_threads(capsys):
    pytest.importorskip("rich", reason="rich draws the progress bars")
    log = monitor()
    net = clone(NET).set_params(max_epochs=2, module__hidden_sizes=(4,))
    model = CalibratedClassifier(
        net.set_callbacks(log), "temperature", ensemble=False, cv=2, n_jobs=2
    ).set_callbacks(callback.ProgressBar())
    with parallel_config("threading"):
        model.fit(X, y)
    text = capsys.readouterr().out
    assert all(f"fold | NeuralClassifier - fit #{i}" in text for i in range(3))
    assert len(scores(log, "epoch")) == 3 * 2
    inner = model.calibrated_classifiers_[0].estimator
    assert inner._skl_callbacks == [log]
    with parallel_config("threading"):
        plain = clone(model).set_callbacks().fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))


# How many classifiers a wrapper trains: one for each of three folds, and for all data.
N_TRAINED = {
    CalibratedClassifier: 3,
    PredictionSetClassifier: 3,
    SelectiveClassifier: 4,
}
OPTIONS = {
    CalibratedClassifier: {"calibrator": "temperature", "n_repeats": 1},
    SelectiveClassifier: {"coverage": 0.8},
}


def test_all_wrappers_with_folds_are_listed():
    public = [getattr(estimators, name) for name in estimators.__all__]
    kinds = [each for each in public if isinstance(each, type)]
    with_folds = {each for each in kinds if "cv" in signature(each).parameters}
    assert with_folds == {*N_TRAINED}


@pytest.mark.parametrize("kind", N_TRAINED)
def test_folds_in_processes(kind):
    of_folds, of_model = monitor(), monitor()
    folds = LogisticRegression(C=1e-3).set_callbacks(of_folds)
    model = kind(folds, cv=3, n_jobs=2, **OPTIONS.get(kind, {}))
    model.set_callbacks(of_model).fit(X, y)
    paths = [row["task_id_path"] for row in of_folds.get_logs().data]
    assert {path[:2] for path in paths} == {(0, i) for i in range(N_TRAINED[kind])}
    assert scores(of_model, "fit") == [-log_loss(y, model.predict_proba(X))]


@pytest.mark.parametrize("kind", N_TRAINED)
def test_callbacks_of_wrappers_end_if_a_fit_fails(kind):
    net = clone(NET).set_params(batch_transform=lambda *_: 1 / 0)
    stop, model = Stop(9), kind(net, cv=3, **OPTIONS.get(kind, {}))
    before = vars(model.set_callbacks(stop)).copy()
    with pytest.raises(ZeroDivisionError):
        model.fit(X, y)
    assert vars(model) == before
    assert not stop.is_open


def test_cached_and_frozen_classifiers_are_not_fitted(tmp_path):
    log = monitor()
    model = CalibratedClassifier(
        clone(NET), "temperature", memory=tmp_path, cv=2, n_repeats=1
    )
    model.set_callbacks(log, Stop(9)).fit(X, y)
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    frozen = FrozenEstimator(clone(NET).fit(X, y))
    options = {"ensemble": True, "n_jobs": 2}
    with parallel_config("threading"):
        CalibratedClassifier(frozen, "temperature", **options).set_callbacks(log).fit(
            X, y
        )
    assert len(log.get_logs(select="all")) == 3


def test_older_scikit_learn(monkeypatch):
    """It has no such module; then no task is followed."""
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)
    spec = spec_from_file_location("older", fit_tasks.__file__)
    older = module_from_spec(spec)
    spec.loader.exec_module(older)

    class Model(older.CallbackSupportMixin):
        @older.with_callbacks
        def fit(self, *data):
            end_fit, folds = older.begin_folds(self, 2, *data)
            for each in folds:
                with older.run_fold(each, self):
                    pass
            return end_fit()

    assert not hasattr(Model, "set_callbacks")
    assert not Model().fit(X, y, None)
