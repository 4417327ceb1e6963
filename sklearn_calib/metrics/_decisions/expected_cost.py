"""Cost of the decisions with the lowest expected cost."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._validation.arrays import as_numbers
from sklearn_calib._validation.declarations import TARGETS, validate_params
from sklearn_calib._validation.samples import read_samples
from sklearn_calib._validation.types import Floats, Ints

# Relative rounding errors of probabilities in single precision.
ROUNDING = 1e-6


@validate_params({**TARGETS, "costs": ["array-like", None]})
def expected_cost_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    costs: ArrayLike | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Expected cost: mean cost of the decisions that the probabilities imply.

    Each sample gets the decision with the lowest expected cost under its predicted
    probabilities (the Bayes decision). The loss is the mean of the costs that these
    decisions have for the true labels. Lower is better.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class, which is the second of the two labels.

    costs : array-like of shape (n_classes, n_decisions), default=None
        Cost of each decision (column) for each true class (row), in the order of the
        columns of `y_proba`; for a 1-d array, those of the negative and of the positive
        class. Decisions are usually the classes, but there may be others, such as to
        abstain. Gains are negative costs. By default, as in the scorer
        "neg_expected_cost", a wrong class has the cost 1, so that the loss is the error
        rate.

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
        Mean cost, between the smallest and the largest of `costs`.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities, or `costs` does not have a row for each
        class.

    See Also
    --------
    net_benefit_score : The same for two classes, in units of a true positive.
    sklearn.model_selection.FixedThresholdClassifier : Classifier of two classes with a
        given threshold.

    Notes
    -----
    With costs C, the decision for the probabilities p is :math:`\arg\min_d \sum_k p_k
    C_{kd}` [1]_, the first for ties. For two classes and no cost of correct
    predictions, it is the positive class if p is above :math:`C_{FP} / (C_{FP} +
    C_{FN})`. These decisions have the lowest possible expected cost if the
    probabilities are calibrated. For other probabilities, recalibration lowers the
    cost, or for two classes a threshold that is tuned to the data
    (:class:`~sklearn.model_selection.TunedThresholdClassifierCV`).

    The decisions themselves are `(y_proba @ costs).argmin(axis=1)`.

    References
    ----------
    .. [1] C. Elkan, "The Foundations of Cost-Sensitive Learning", IJCAI 2001, equation
       1.

    Examples
    --------
    A false negative costs 5 and a false positive 1, so the threshold is 1/6:

    >>> from sklearn_calib.metrics import expected_cost_loss
    >>> costs = [[0, 1], [5, 0]]
    >>> expected_cost_loss([0, 0, 1, 1], [0.1, 0.3, 0.6, 0.9], costs=costs)
    0.25
    """
    data = y_true, y_proba, labels, sample_weight, "canonical", pos_label
    samples = read_samples(*data, is_symmetric=True)
    proba, codes, weight = samples.proba()
    if costs is None:
        # A table of costs would have a row and a column for each class.
        errors = np.maximum(proba.sum(axis=1, keepdims=True, dtype=float) - proba, 0)
        cost = codes != _lowest(errors, errors)
    else:
        table = _check_costs(costs, proba.shape[1])
        cost = table[codes, _lowest(proba @ table, proba @ np.abs(table))]
    return float(np.average(cost, weights=weight))


def _lowest(expected: Floats, magnitude: Floats) -> Ints:
    """Return the decision with the lowest expected cost of each row.

    `magnitude` is the expected cost of the absolute costs.
    """
    # Rounding errors must not determine which of equal costs is the lowest.
    slack = ROUNDING * magnitude.min(axis=1)
    lowest = expected.min(axis=1) + slack
    return (expected <= lowest[:, None]).argmax(axis=1)


def _check_costs(costs: Any, n_classes: int) -> Floats:
    """Return the costs as an array (n_classes, n_decisions)."""
    table = as_numbers(costs, "costs").astype(np.float64)
    if table.ndim != 2 or len(table) != n_classes or not table.size:
        raise ValueError(
            f"costs must have a row for each of the {n_classes} classes and a column "
            f"for each decision, got an array of shape {table.shape}. For two classes, "
            "pass [[0, cost of a false positive], [cost of a false negative, 0]]."
        )
    if not np.isfinite(table).all():
        raise ValueError(
            "costs must be finite, got NaN or infinity. Use a large cost for decisions "
            "to avoid."
        )
    return table
