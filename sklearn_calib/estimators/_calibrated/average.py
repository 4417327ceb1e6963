"""Calibration of the average of several calibrated classifiers."""

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import xlog1py, xlogy

from sklearn_calib._expressions.rows import (
    log_of_pool,
    log_of_tiny,
    log_softmax,
    softmax,
)
from sklearn_calib._validation.labels import encode_labels
from sklearn_calib._validation.types import Array, Floats, Ints

# Pseudo-count of the prior distribution of rho, in samples.
PRIOR_COUNT = 1.0

# Largest relative error of the class frequencies, and number of steps to reach it.
TOLERANCE = 1e-9
MAX_STEPS = 100


class Pool(NamedTuple):
    """Temperature and offsets of the logarithms of averages."""

    temperature: Any
    offset: Any


def identity_pool(classes: Any) -> Pool:
    """Return the pool that leaves averages as they are."""
    n_columns = len(classes)
    is_multilabel = isinstance(classes, list)
    return Pool(np.ones(n_columns) if is_multilabel else 1.0, np.zeros(n_columns))


def fit_pool(
    proba: Floats,
    rows: Ints,
    y: Array,
    sample_weight: Array | None,
    classes: Any,
    n_members: int,
) -> Pool:
    """Return the temperature and offsets that calibrate an average of classifiers.

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
        From 1 / n_members to 1. It is 1 if less than half of the predicted samples have
        two predictions.

    offset : ndarray of shape (n_classes,) or (n_labels,)
        Added to logarithms, or to the log-odds of labels.
    """
    samples, pairs = _pairs(proba, rows)
    is_rare = 2 * len(samples) < len(np.unique(rows))
    weight = np.ones(len(y)) if sample_weight is None else sample_weight
    weight = weight[samples]
    if n_members == 1 or is_rare or not weight.any():
        return identity_pool(classes)
    if not isinstance(classes, list):
        codes = encode_labels(
            y[samples], labels=classes, n_classes=len(classes), name="y"
        )
        return _fit(pairs, codes, weight, n_members)
    columns = zip(np.moveaxis(pairs, 2, 0), y[samples].T, strict=True)
    fitted = [
        _fit(np.stack([1 - p, p], axis=2), codes, weight, n_members)
        for p, codes in columns
    ]
    temperature, offset = map(np.array, zip(*fitted, strict=True))
    return Pool(temperature, offset[:, 1] - offset[:, 0])


def average_held_out(
    proba: Floats,
    rows: Ints,
    sample_weight: Array | None,
    temperature: float,
    n_members: int,
) -> tuple[Ints, Floats]:
    """Return samples with two predictions, and the calibrated average of these two.

    `temperature` is that of the average of all members, of which only these two were
    not trained with the sample.
    """
    samples, pairs = _pairs(proba, rows)
    rho = (1 - temperature) / (1 - 1 / n_members)
    weight = np.ones(len(samples)) if sample_weight is None else sample_weight[samples]
    mean = np.average(pairs.mean(axis=0), axis=0, weights=weight)
    logits = log_of_pool([*pairs]) / (1 - rho / 2)
    return samples, softmax(logits + _offsets(logits, weight, mean))


def _pairs(proba: Floats, rows: Ints) -> tuple[Ints, Floats]:
    """Return the samples with two predictions or more, and the first two of each."""
    order = np.argsort(rows, kind="stable")
    samples, start, count = np.unique(
        rows[order], return_index=True, return_counts=True
    )
    start = start[count > 1]
    pairs = np.stack([proba[order[start]], proba[order[start + 1]]])
    return samples[count > 1], pairs


def _fit(pairs: Floats, codes: Ints, weight: Floats, n_members: int) -> Pool:
    """Return the temperature 1 - rho (1 - 1 / n_members), and the offsets.

    If the log-odds of the members are a common part plus independent errors, rho is
    the part of the errors in their variance, and the best temperature of an average of
    m members is proportional to 1 - rho (1 - 1 / m), with the same class frequencies.
    Rho maximises the likelihood of the averages of two, times a beta distribution whose
    mean is the same part of the variance of the probabilities.
    """
    mean = np.average(pairs.mean(axis=0), axis=0, weights=weight)
    total = np.average(((pairs - mean) ** 2).sum(axis=2).mean(axis=0), weights=weight)
    errors = np.average(((pairs[0] - pairs[1]) ** 2).sum(axis=1), weights=weight) / 2
    expected = PRIOR_COUNT * min(errors / total, 1.0) if total > 0 else 0.0
    centre = log_of_tiny(mean)
    average, singles = log_of_pool([*pairs]), log_of_tiny(pairs)

    def likelihood(logs: Floats, temperature: float) -> float:
        logs = log_softmax((logs - centre) / temperature + centre)
        return float(weight @ logs[np.arange(len(codes)), codes])

    # A calibrator may look underconfident on the samples that it was fitted to.
    single = minimize_scalar(
        lambda t: -sum(likelihood(each, t) for each in singles),
        bounds=(0.25, 4),
        method="bounded",
    ).x

    def loss(rho: float) -> float:
        prior = xlogy(expected, rho) + xlog1py(PRIOR_COUNT - expected, -rho)
        return -(likelihood(average, single * (1 - rho / 2)) + prior)

    rho = minimize_scalar(loss, bounds=(0, 1), method="bounded").x
    temperature = float(1 - rho * (1 - 1 / n_members))
    return Pool(temperature, _offsets(average / temperature, weight, mean))


def _offsets(logits: Floats, weight: Floats, frequencies: Floats) -> Floats:
    """Return the offsets for which the mean of the softmax is `frequencies`."""
    offset, shares = np.zeros_like(frequencies), weight / weight.sum()
    for _ in range(MAX_STEPS):
        found = shares @ softmax(logits + offset)
        step = log_of_tiny(frequencies) - log_of_tiny(found)
        offset += step
        if np.abs(step).max() < TOLERANCE:
            break
    return offset - offset.mean()
