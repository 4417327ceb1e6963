"""Coverage and size of prediction sets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._validation.arrays import as_numbers, shown
from sklearn_calib._validation.declarations import (
    BETWEEN_0_AND_1,
    TARGETS,
    validate_params,
)
from sklearn_calib._validation.samples import read_class_values
from sklearn_calib._validation.types import Bools, Floats, Ints, Weights

OF_SETS = {
    "y_true": TARGETS["y_true"],
    "y_set": ["array-like"],
    "labels": TARGETS["labels"],
    "sample_weight": TARGETS["sample_weight"],
}


@validate_params(OF_SETS)
def set_coverage_score(
    y_true: ArrayLike,
    y_set: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Coverage of prediction sets: fraction of the sets that contain the true class.

    It should be close to the confidence level of the sets. Higher is better, but sets
    of all classes have the coverage 1, so compare :func:`mean_set_size_loss` too.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_set : array-like of shape (n_samples, n_classes)
        Whether each class is in the set of each sample, as booleans or as 0 and 1, such
        as the result of `predict_set`.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_set`, such as `estimator.classes_`. By default,
        the sorted distinct values of `y_true`, which must then contain every class.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. A weight of 2 is equivalent to including the sample twice.

    Returns
    -------
    coverage : float
        Weighted fraction of covered samples, in [0, 1].

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_set`, or `y_set` contains other
        values than 0 and 1.

    See Also
    --------
    mean_set_size_loss : Mean number of classes in a set.
    class_coverage_error : Coverage of the classes.
    size_stratified_coverage_error : Coverage of sets of different sizes.
    sklearn_calib.PredictionSetClassifier : Classifier that predicts sets.

    Notes
    -----
    :func:`per_group` computes the coverage of each group of samples. With
    `groups=y_true`, the groups are the classes. :func:`worst_group` with
    `greater_is_better=True` returns the lowest of these coverages, and
    :func:`bootstrap_interval` an interval.

    The scorer "set_coverage" evaluates classifiers with the method `predict_set`.

    Examples
    --------
    >>> from sklearn_calib.metrics import per_group, set_coverage_score
    >>> y_true = ["ant", "ant", "bee", "bee"]
    >>> y_set = [[1, 0], [1, 1], [1, 0], [0, 0]]
    >>> set_coverage_score(y_true, y_set)
    0.5
    >>> per_group(set_coverage_score, y_true, y_set, groups=y_true)
             n_samples  value
    ant              2    1.0
    bee              2    0.0
    overall          4    0.5
    """
    sets, codes, weight = _read_sets(y_true, y_set, labels, sample_weight)
    return float(np.average(sets[np.arange(len(codes)), codes], weights=weight))


@validate_params(OF_SETS)
def mean_set_size_loss(
    y_true: ArrayLike,
    y_set: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean size of prediction sets: mean number of classes in a set.

    Of sets with the same coverage, those with the lower mean size are better.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type. Only their number and the classes are checked.

    y_set : array-like of shape (n_samples, n_classes)
        Whether each class is in the set of each sample, as booleans or as 0 and 1, such
        as the result of `predict_set`.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_set`, such as `estimator.classes_`. By default,
        the sorted distinct values of `y_true`, which must then contain every class.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. A weight of 2 is equivalent to including the sample twice.

    Returns
    -------
    size : float
        Weighted mean number of classes, in [0, n_classes].

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_set`, or `y_set` contains other
        values than 0 and 1.

    See Also
    --------
    set_coverage_score : Fraction of the sets that contain the true class.

    Notes
    -----
    The scorer "neg_mean_set_size" evaluates classifiers with the method `predict_set`.

    Examples
    --------
    >>> from sklearn_calib.metrics import mean_set_size_loss
    >>> mean_set_size_loss([0, 0, 1, 1], [[1, 0], [1, 1], [1, 0], [0, 0]])
    1.0
    """
    sets, _, weight = _read_sets(y_true, y_set, labels, sample_weight)
    return float(np.average(sets.sum(axis=1), weights=weight))


@validate_params({**OF_SETS, "confidence_level": BETWEEN_0_AND_1})
def class_coverage_error(
    y_true: ArrayLike,
    y_set: ArrayLike,
    *,
    confidence_level: float = 0.9,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Class coverage gap (CovGap) of prediction sets.

    It is the mean over the classes of the absolute difference between the coverage of
    the class and the confidence level [1]_. Lower is better.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_set : array-like of shape (n_samples, n_classes)
        Whether each class is in the set of each sample, as booleans or as 0 and 1, such
        as the result of `predict_set`.

    confidence_level : float, default=0.9
        Wanted coverage, in (0, 1).

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_set`, such as `estimator.classes_`. By default,
        the sorted distinct values of `y_true`, which must then contain every class.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. A weight of 2 is equivalent to including the sample twice.

    Returns
    -------
    error : float
        In [0, 1].

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_set`, or `y_set` contains other
        values than 0 and 1.

    See Also
    --------
    size_stratified_coverage_error : Coverage of sets of different sizes.
    set_coverage_score : Coverage of all samples.

    Notes
    -----
    With the coverage :math:`c_k` of the samples of class k, it is
    :math:`\frac{1}{K} \sum_k |c_k - \text{confidence\_level}|`, where K is the number
    of classes with samples. The paper multiplies it by 100. Random differences of
    classes with few samples increase it.

    References
    ----------
    .. [1] T. Ding, A. N. Angelopoulos, S. Bates, M. I. Jordan and R. J. Tibshirani,
       "Class-Conditional Conformal Prediction with Many Classes", NeurIPS 2023.

    Examples
    --------
    >>> from sklearn_calib.metrics import class_coverage_error
    >>> y_set = [[1, 0], [1, 1], [1, 0], [0, 1]]
    >>> value = class_coverage_error([0, 0, 1, 1], y_set)  # coverages 1 and 0.5
    >>> round(value, 3)
    0.25
    """
    sets, codes, weight = _read_sets(y_true, y_set, labels, sample_weight)
    errors = _errors_of_groups(codes, sets, codes, weight, confidence_level)
    return float(errors.mean())


@validate_params(
    {**OF_SETS, "confidence_level": BETWEEN_0_AND_1, "size_limits": ["array-like"]}
)
def size_stratified_coverage_error(
    y_true: ArrayLike,
    y_set: ArrayLike,
    *,
    confidence_level: float = 0.9,
    size_limits: ArrayLike = (1, 3, 6, 10, 100),
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Size-stratified coverage violation (SSCV) of prediction sets.

    It is the largest absolute difference between the coverage of sets of similar size
    and the confidence level [1]_. Lower is better.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_set : array-like of shape (n_samples, n_classes)
        Whether each class is in the set of each sample, as booleans or as 0 and 1, such
        as the result of `predict_set`.

    confidence_level : float, default=0.9
        Wanted coverage, in (0, 1).

    size_limits : array-like of shape (n_limits,), default=(1, 3, 6, 10, 100)
        Largest size of each stratum but the last. The default is that of the authors'
        code: sizes 0 and 1, 2 and 3, 4 to 6, 7 to 10, 11 to 100, and above.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_set`, such as `estimator.classes_`. By default,
        the sorted distinct values of `y_true`, which must then contain every class.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. A weight of 2 is equivalent to including the sample twice.

    Returns
    -------
    error : float
        In [0, 1].

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_set`, or `y_set` contains other
        values than 0 and 1.

    See Also
    --------
    class_coverage_error : Coverage of the classes.
    set_coverage_score : Coverage of all samples.

    Notes
    -----
    If large sets have a lower coverage than small ones, they are too small for
    difficult samples, and if they have a higher one, too large. Strata without samples
    are ignored, and those with few samples have a large random error.

    References
    ----------
    .. [1] A. N. Angelopoulos, S. Bates, J. Malik and M. I. Jordan, "Uncertainty Sets
       for Image Classifiers using Conformal Prediction", ICLR 2021.

    Examples
    --------
    >>> from sklearn_calib.metrics import size_stratified_coverage_error
    >>> y_set = [[1, 0], [1, 1], [1, 0], [0, 1]]
    >>> value = size_stratified_coverage_error([0, 0, 1, 1], y_set)  # 2 / 3 and 1
    >>> round(value, 3)
    0.233
    """
    sets, codes, weight = _read_sets(y_true, y_set, labels, sample_weight)
    limits = as_numbers(size_limits, "size_limits")
    if limits.ndim != 1 or np.isnan(limits).any():
        raise ValueError(
            "size_limits must contain a number for each stratum but the last, got "
            f"{shown(size_limits)}. Pass a list such as [1, 3, 6]."
        )
    strata = np.searchsorted(np.sort(limits), sets.sum(axis=1))
    errors = _errors_of_groups(strata, sets, codes, weight, confidence_level)
    return float(errors.max())


def _errors_of_groups(
    groups: Ints, sets: Bools, codes: Ints, weight: Weights, level: float
) -> Floats:
    """Return the absolute errors of the coverages of groups that have samples."""
    weight = np.ones(len(codes)) if weight is None else weight
    total = np.bincount(groups, weight)
    covered = np.bincount(groups, weight * sets[np.arange(len(codes)), codes])
    return np.abs(covered[total > 0] / total[total > 0] - level)


def _read_sets(
    y_true: Any, y_set: Any, labels: Any, sample_weight: Any
) -> tuple[Bools, Ints, Weights]:
    """Return checked sets, the columns of the true classes, and weights."""
    sets, *others = read_class_values(
        y_true,
        y_set,
        labels,
        sample_weight,
        name="y_set",
        is_valid=lambda values: np.isin(values, (0, 1)).all(),
        content="whether each class is in the set of each sample, as 0 or 1,",
        source="predict_set",
    )
    return sets != 0, *others
