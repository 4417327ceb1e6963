"""Threads and forked processes give the results of one thread."""

import multiprocessing
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV, cross_val_predict

from sklearn_calib import NeuralClassifier, RefCalClassifier
from sklearn_calib.estimators._neural.placement import seeded_torch

X, y = make_classification(n_samples=120, n_informative=6, n_classes=3, random_state=0)
NET = NeuralClassifier(module__dropout=0.5, max_epochs=2, random_state=0)
REFCAL = RefCalClassifier(
    n_projection=4, random_state=0, refine__max_epochs=2, head__max_epochs=2
)


def fit_and_predict(estimator):
    return clone(estimator).fit(X, y).predict_proba(X)


@pytest.mark.parametrize("estimator", [NET, REFCAL], ids=["net", "refcal"])
def test_threads_fit_and_predict_at_once(estimator):
    fitted = clone(estimator).fit(X, y)
    expected = fitted.predict_proba(X)
    with ThreadPoolExecutor(6) as pool:
        fits = [pool.submit(fit_and_predict, estimator) for _ in range(4)]
        predictions = [pool.submit(fitted.predict_proba, X) for _ in range(20)]
        for each in fits + predictions:
            np.testing.assert_array_equal(each.result(timeout=60), expected)


def test_a_search_in_threads():
    grid = {"lr": [0.01, 0.1], "loss": ["focal", "brier"]}
    net = clone(NET).set_params(module__hidden_sizes=(8,), max_epochs=1)
    search = GridSearchCV(net, grid, cv=2, scoring="neg_log_loss", refit=False)
    expected = clone(search).fit(X, y).cv_results_["mean_test_score"]
    folds = cross_val_predict(net, X, y, cv=2, method="predict_proba")
    with joblib.parallel_backend("threading", n_jobs=4):
        found = clone(search).set_params(n_jobs=4).fit(X, y)
        again = cross_val_predict(net, X, y, cv=2, method="predict_proba", n_jobs=4)
    np.testing.assert_array_equal(found.cv_results_["mean_test_score"], expected)
    np.testing.assert_array_equal(again, folds)


def test_what_other_threads_draw_is_left_alone_after_a_fit():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    thread = threading.Thread(target=fit_and_predict, args=(NET,))
    thread.start()
    thread.join(timeout=60)
    torch.testing.assert_close(torch.rand(3), expected)


fork_only = pytest.mark.skipif(
    sys.platform != "linux" or torch.cuda.is_available(),
    reason="needs Linux, and no CUDA: a process cannot be forked after it is used",
)


def fit_in_fork():
    """Return what a forked process predicts, or fail after a minute."""
    # GNU's OpenMP hangs after a fork, unless one thread is enough for it.
    forked = multiprocessing.get_context("fork")
    with forked.Pool(1, torch.set_num_threads, (1,)) as pool:
        return pool.apply_async(fit_and_predict, (NET,)).get(timeout=60)


@fork_only
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_process_forked_after_a_fit():
    expected = fit_and_predict(NET)
    np.testing.assert_array_equal(fit_in_fork(), expected)


@fork_only
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_process_forked_while_a_thread_trains():
    expected = fit_and_predict(NET)
    is_training, may_end = threading.Event(), threading.Event()

    def train():
        with seeded_torch(0):
            is_training.set()
            may_end.wait(timeout=120)

    thread = threading.Thread(target=train)
    thread.start()
    try:
        is_training.wait(timeout=60)
        np.testing.assert_array_equal(fit_in_fork(), expected)
    finally:
        may_end.set()
        thread.join(timeout=60)
