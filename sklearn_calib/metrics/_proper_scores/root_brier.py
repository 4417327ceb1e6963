"""Root Brier score."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._validation.declarations import TARGETS, validate_params
from sklearn_calib._validation.probabilities import proba_blocks
from sklearn_calib._validation.samples import read_samples


@validate_params(TARGETS)
def root_brier_score_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Root Brier score (RBS), an upper bound on calibration errors.

    The root of the mean squared distance of the probabilities from the one-hot labels.
    It is small only for predictions that are both calibrated and accurate. Lower is
    better; 0 is best.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class, which is the second of the two labels.

    pos_label : label, default=None
        Label of the class whose probabilities a 1-d array contains. By default, the
        second of the two labels.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`, such as `estimator.classes_`. By default,
        the sorted distinct values of `y_true`, which must then contain every class.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. A weight of 2 is equivalent to including the sample twice.

    Returns
    -------
    loss : float
        Root Brier score, in [0, 1.414].

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities.

    See Also
    --------
    sklearn.metrics.brier_score_loss : Brier score, without the root.

    Notes
    -----
    The value is :math:`\sqrt{\frac{1}{n} \sum_i \sum_k (p_{ik} - 1[y_i = k])^2}`. The
    sum is over all classes. For two classes, the mean is therefore twice the default
    Brier score of scikit-learn.

    The root Brier score is an upper bound on any calibration error with the l2 norm.
    Recalibration by an injective map changes the squares of both by the same amount
    [1]_.

    References
    ----------
    .. [1] S. G. Gruber and F. Buettner, "Better Uncertainty Calibration via Proper
       Scores for Classification and Beyond", NeurIPS 2022.

    Examples
    --------
    >>> from sklearn_calib.metrics import root_brier_score_loss
    >>> y_proba = [[0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.0, 0.0, 1.0]]
    >>> round(root_brier_score_loss([0, 1, 2], y_proba), 3)
    0.306
    """
    data = y_true, y_proba, labels, sample_weight, "canonical", pos_label
    samples = read_samples(*data, is_symmetric=True)
    proba, codes, weight = samples.unchecked()
    squares = np.empty(len(proba))
    for rows, block in proba_blocks(proba):
        distance = np.array(block, dtype=np.float64)
        distance[np.arange(len(block)), codes[rows]] -= 1
        squares[rows] = np.einsum("ij,ij->i", distance, distance)
    return math.sqrt(np.average(squares, weights=weight))
