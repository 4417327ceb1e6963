"""Temperature of the linear pool: the average of several calibrated classifiers."""

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import xlog1py, xlogy

from sklearn_calib._expressions.rows import log_of_tiny, log_softmax
from sklearn_calib._numerics.sample_blocks import array_blocks
from sklearn_calib._solvers.temperature_fit import bounded_temperature
from sklearn_calib._validation.labels import encode_labels
from sklearn_calib._validation.types import Array, Floats, Ints

# Pseudo-count of the prior distribution of rho, in samples.
PRIOR_COUNT = 4.0


def fit_pool_temperature(
    proba: Floats,
    rows: Ints,
    y: Array,
    sample_weight: Array | None,
    classes: Any,
    n_members: int,
) -> Any:
    """Return the temperature that calibrates the average of several classifiers.

    Parameters
    ----------
    proba : ndarray of shape (n_predictions, n_classes) or (n_predictions, n_labels)
        Calibrated held-out probabilities, each of one of the classifiers.

    rows : ndarray of shape (n_predictions,)
        The sample of each prediction. Only samples with two predictions or more are
        used, with the first two.

    y : ndarray of shape (n_samples,) or (n_samples, n_labels)
        Labels of all samples, or an indicator matrix.

    sample_weight : ndarray of shape (n_samples,) or None
        Valid weights of the samples.

    classes : ndarray of shape (n_classes,) or list of ndarray
        Labels of the columns.

    n_members : int
        Number of classifiers that are averaged.

    Returns
    -------
    temperature : float or ndarray of shape (n_labels,)
        From 1 / n_members to 1. It is 1 if no sample has two predictions.
    """
    is_multilabel = isinstance(classes, list)
    order = np.argsort(rows, kind="stable")
    samples, start, count = np.unique(
        rows[order], return_index=True, return_counts=True
    )
    start, samples = start[count > 1], samples[count > 1]
    weight = np.ones(len(y)) if sample_weight is None else sample_weight
    weight = weight[samples]
    if n_members == 1 or not weight.any():
        return np.ones(len(classes)) if is_multilabel else 1.0
    pairs = np.stack([proba[order[start]], proba[order[start + 1]]])
    if not is_multilabel:
        codes = encode_labels(
            y[samples], labels=classes, n_classes=len(classes), name="y"
        )
        return _temperature(pairs, codes, weight, n_members)
    columns = zip(np.moveaxis(pairs, 2, 0), y[samples].T, strict=True)
    return np.array(
        [
            _temperature(np.stack([1 - p, p], axis=2), codes, weight, n_members)
            for p, codes in columns
        ]
    )


def _temperature(pairs: Floats, codes: Ints, weight: Floats, n_members: int) -> float:
    """Return 1 - rho (1 - 1 / n_members), where rho is estimated from pairs.

    If the log-odds of the members are a common part plus independent errors, rho is
    the part of the errors in their variance, and the best temperature of an average of
    m members is proportional to 1 - rho (1 - 1 / m). Rho maximises the likelihood of
    the averages of two, times a beta distribution whose mean is the same part of the
    variance of the probabilities.
    """
    average = pairs.mean(axis=0)
    twice = np.tile(codes, 2), np.tile(weight, 2)
    singles = array_blocks(log_of_tiny(np.concatenate(pairs)), *twice)
    logs = log_of_tiny(average) / bounded_temperature(singles)[0]
    of_class = np.arange(len(codes)), codes
    mean = np.average(np.concatenate(pairs), axis=0, weights=twice[1])
    total = np.average(((pairs - mean) ** 2).sum(axis=2).mean(axis=0), weights=weight)
    errors = np.average(((pairs[0] - pairs[1]) ** 2).sum(axis=1), weights=weight) / 2
    expected = PRIOR_COUNT * min(errors / total, 1.0) if total > 0 else 0.0

    def loss(rho: float) -> float:
        likelihood = weight @ log_softmax(logs / (1 - rho / 2))[of_class]
        prior = xlogy(expected, rho) + xlog1py(PRIOR_COUNT - expected, -rho)
        return -(likelihood + prior)

    rho = minimize_scalar(loss, bounds=(0, 1), method="bounded").x
    return float(1 - rho * (1 - 1 / n_members))
