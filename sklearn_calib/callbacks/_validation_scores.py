"""Scores on the validation set, for skorch's `EpochScoring`."""

from typing import Any

import numpy as np
from skorch import NeuralNet
from torch.utils.data import Dataset, Subset

from sklearn_calib._numerics.binning import gap_error, row_gap_sums
from sklearn_calib._numerics.softmax import log_softmax, softmax
from sklearn_calib._solvers.temperature_fit import fit_refinement
from sklearn_calib._torch.processes import concatenate_logits
from sklearn_calib._validation.samples import top_label
from sklearn_calib._validation.types import Array


def valid_log_loss(net: NeuralNet, dataset: Dataset[Any], y: Array) -> float:
    """Log loss of a network on the validation set, for `EpochScoring`.

    Lower is better. Unlike `valid_loss`, it does not depend on the training loss, so
    networks trained with different losses can be compared. Use it for early stopping
    and checkpoints, or :func:`valid_refinement` if the network will be calibrated.

    Parameters
    ----------
    net : NeuralClassifier
        The network that is being trained.

    dataset : torch.utils.data.Dataset
        The validation set.

    y : ndarray of shape (n_samples,)
        Encoded labels, 0 to n_classes - 1.

    Returns
    -------
    log_loss : float
        Mean negative log-likelihood, in nats.

    Examples
    --------
    >>> from skorch.callbacks import EpochScoring
    >>> from sklearn_calib.callbacks import valid_log_loss
    >>> callback = EpochScoring(valid_log_loss, name="valid_log_loss")
    """
    log_proba = log_softmax(concatenate_logits(net.forward_iter(dataset)))
    losses = -log_proba[np.arange(len(y)), y]
    return float(np.average(losses, weights=_sample_weight(dataset)))


def valid_refinement(net: NeuralNet, dataset: Dataset[Any], y: Array) -> float:
    """Refinement error of a network: validation log loss after temperature scaling.

    Lower is better. Use it for early stopping and checkpoints of a network that will be
    calibrated afterwards: the log loss also increases if the network becomes
    overconfident, which a temperature corrects. See [1]_.

    Parameters
    ----------
    net : NeuralClassifier
        The network that is being trained.

    dataset : torch.utils.data.Dataset
        The validation set.

    y : ndarray of shape (n_samples,)
        Encoded labels, 0 to n_classes - 1.

    Returns
    -------
    error : float
        Mean negative log-likelihood after a temperature has been fitted to the same
        data, in nats. NaN if the network has diverged.

    See Also
    --------
    sklearn_calib.metrics.refinement_error : Refinement error of any predictions.

    References
    ----------
    .. [1] E. Berta, D. Holzmüller, M. I. Jordan and F. Bach, "Rethinking Early
       Stopping: Refine, Then Calibrate", arXiv:2501.19195, 2025.

    Examples
    --------
    >>> from sklearn_calib import NeuralClassifier
    >>> net = NeuralClassifier(early_stopping="valid_refinement")
    """
    logits = concatenate_logits(net.forward_iter(dataset))
    if not np.isfinite(logits).all():
        return float("nan")
    weight = _sample_weight(dataset)
    weight = np.ones(len(y)) if weight is None else weight
    proba = fit_refinement(logits, y, weight)(logits)
    p_true = proba[np.arange(len(y)), y]
    return float(np.average(-np.log(p_true), weights=weight))


def valid_ece(net: NeuralNet, dataset: Dataset[Any], y: Array) -> float:
    """Expected calibration error (ECE) of a network on the validation set.

    It is the top-label ECE with 15 bins of equal width. Lower is better. Do not use it
    for early stopping: it is low for an untrained network, whose confidence and
    accuracy are both low.

    Parameters
    ----------
    net : NeuralClassifier
        The network that is being trained.

    dataset : torch.utils.data.Dataset
        The validation set.

    y : ndarray of shape (n_samples,)
        Encoded labels, 0 to n_classes - 1.

    Returns
    -------
    error : float
        Expected calibration error, in [0, 1].

    See Also
    --------
    sklearn_calib.metrics.expected_calibration_error : ECE of any predictions.

    Examples
    --------
    >>> from skorch.callbacks import EpochScoring
    >>> from sklearn_calib.callbacks import valid_ece
    >>> callback = EpochScoring(valid_ece, name="valid_ece")
    """
    proba = softmax(concatenate_logits(net.forward_iter(dataset)))
    confidence, predicted = top_label(proba)
    data = confidence, predicted == y, _sample_weight(dataset)
    return gap_error(*row_gap_sums(*data, n_bins=15, strategy="uniform"), "l1")


def _sample_weight(dataset: Any) -> Array | None:
    """Return the sample weights of a dataset or of a subset, or None."""
    if isinstance(dataset, Subset):
        weight = _sample_weight(dataset.dataset)
        return None if weight is None else weight[dataset.indices]
    return getattr(dataset, "sample_weight", None)
