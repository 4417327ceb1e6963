"""Losses that need the indices of the samples, in the estimator."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import cross_val_score
from skorch.callbacks import Callback, Checkpoint, LoadInitState

from sklearn_calib import NeuralClassifier
from sklearn_calib.datasets import Mixup

X, y = make_classification(
    n_samples=203, n_informative=5, n_classes=3, flip_y=0.3, random_state=0
)
NET = NeuralClassifier(
    loss="crl",
    module__hidden_sizes=(8,),
    module__dropout=0.3,
    max_epochs=3,
    batch_size=101,
    random_state=0,
)


class SeeTraining(Callback):
    """Count the correct predictions of each sample, identified by its features."""

    def on_train_begin(self, *args, **kwargs):
        self.seen, self.n_correct = np.zeros((2, len(X)), dtype=int)

    def on_batch_end(self, *args, batch=None, training=False, y_pred=None, **kwargs):
        if training:
            features = batch[0].numpy()[:, None]
            rows = (features == X.astype("f4")).all(2).argmax(1)
            self.seen[rows] += 1
            self.n_correct[rows] += (y_pred.argmax(1) == batch[1]).numpy()


def test_the_history_belongs_to_the_samples():
    net = clone(NET).set_params(callbacks=[SeeTraining()]).fit(X, y)
    callback = dict(net.callbacks_)["SeeTraining"]
    np.testing.assert_array_equal(callback.seen, 3)
    expected = np.column_stack([callback.n_correct, callback.seen])
    np.testing.assert_array_equal(net.criterion_.history, expected)


def test_held_out_samples_have_no_history():
    net = clone(NET).set_params(validation_fraction=0.2).fit(X, y)
    assert net.criterion_.history.shape == (162, 2)
    assert (net.criterion_.history[:, 1] == 3).all()


def test_the_ranking_changes_the_network():
    plain = clone(NET).set_params(loss__lambd=0.0).fit(X, y).predict_proba(X)
    assert np.abs(clone(NET).fit(X, y).predict_proba(X) - plain).max() > 1e-3


def test_a_resumed_run_equals_a_whole_one(tmp_path):
    whole = clone(NET).fit(X, y)
    checkpoint = Checkpoint(monitor=None, dirname=tmp_path)
    clone(NET).set_params(max_epochs=2, callbacks=[checkpoint]).fit(X, y)
    resumed = clone(NET).set_params(
        max_epochs=1, callbacks=[LoadInitState(Checkpoint(dirname=tmp_path))]
    )
    resumed.fit(X, y)
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))
    np.testing.assert_array_equal(resumed.criterion_.history, whole.criterion_.history)


def test_a_new_fit_has_a_new_history():
    net = clone(NET).fit(X, y).fit(X, y)
    assert (net.criterion_.history[:, 1] == 3).all()


def test_another_validation_set_has_another_history():
    """With a seed, the same samples are drawn, and the history continues."""
    net = clone(NET).set_params(warm_start=True, validation_fraction=0.2, max_epochs=2)
    net.fit(X, y).fit(X, y)
    assert (net.criterion_.history[:, 1] == 4).all()
    net.set_params(random_state=None).fit(X, y)
    assert (net.criterion_.history[:, 1] == 2).all()
    net.set_params(validation_fraction=None).fit(X, y).fit(X, y)
    assert (net.criterion_.history[:, 1] == 4).all()


def test_partial_fit_goes_on_with_the_same_samples():
    net = clone(NET).partial_fit(X, y, classes=[0, 1, 2]).partial_fit(X, y)
    assert (net.criterion_.history[:, 1] == 2).all()
    net.partial_fit(X[:100], y[:100])
    assert net.criterion_.history.shape == (100, 2)


def test_weights_and_cross_validation():
    weight = np.random.default_rng(0).uniform(0.5, 2, len(X))
    clone(NET).set_params(loss__base="focal").fit(X, y, sample_weight=weight)
    assert np.isfinite(cross_val_score(NET, X, y, scoring="neg_ece", cv=2)).all()


@pytest.mark.parametrize(
    "params", [{"iterator_train__num_workers": 0}, {"batch_transform": Mixup()}]
)
def test_batches_without_indices(params):
    with pytest.raises(ValueError, match="CRLLoss needs the indices of the samples"):
        clone(NET).set_params(**params).fit(X, y)
