"""Scores on the validation set."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss
from skorch.callbacks import Callback

from sklearn_calib import NeuralClassifier
from sklearn_calib.metrics import expected_calibration_error, refinement_error


class KeepPredictions(Callback):
    """Record the predictions on the validation set after each epoch."""

    def on_train_begin(self, *args, **kwargs):
        self.log_loss, self.ece, self.refinement = [], [], []

    def on_epoch_end(self, net, dataset_valid=None, **kwargs):
        rows = dataset_valid.indices
        y, proba = dataset_valid.dataset.y[rows], net.predict_proba(dataset_valid)
        weight = dataset_valid.dataset.sample_weight
        weight = None if weight is None else weight[rows]
        self.log_loss.append(log_loss(y, proba, sample_weight=weight))
        self.ece.append(expected_calibration_error(y, proba, sample_weight=weight))
        self.refinement.append(refinement_error(y, proba, sample_weight=weight))


@pytest.mark.parametrize("weighted", [False, True])
def test_history_contains_the_metrics_of_the_validation_set(weighted):
    X, y = make_classification(
        n_samples=300, n_informative=5, n_classes=3, random_state=0
    )
    weight = np.random.default_rng(0).uniform(0.5, 2, 300) if weighted else None
    keep = KeepPredictions()
    net = NeuralClassifier(
        max_epochs=4, validation_fraction=0.3, callbacks=[keep], random_state=0
    ).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(net.history_[:, "valid_log_loss"], keep.log_loss)
    np.testing.assert_allclose(net.history_[:, "valid_ece"], keep.ece)
    refinement = net.history_[:, "valid_refinement"]
    np.testing.assert_allclose(refinement, keep.refinement)
    assert np.min(np.abs(np.subtract(refinement, keep.log_loss))) > 1e-3


def test_nothing_is_recorded_without_validation_data():
    X, y = make_classification(random_state=0)
    net = NeuralClassifier(max_epochs=1).fit(X, y)
    assert not any(name.startswith("valid") for name in net.history_[-1])
