"""Multicalibration error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._validation.declarations import (
    MODE,
    TARGETS,
    StrOptions,
    declare_interval,
    validate_params,
)
from sklearn_calib._validation.groups import distinct_values, encode_groups, group_frame
from sklearn_calib._validation.samples import read_samples, samples_by_class
from sklearn_calib._validation.types import Floats, Ints


@declare_interval(is_error=True)
@validate_params(
    {
        **TARGETS,
        "groups": ["array-like"],
        "scale": [StrOptions({"noise", "size"})],
        **MODE,
    }
)
def multicalibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    groups: ArrayLike,
    scale: str = "size",
    mode: str | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Multicalibration error: largest calibration error over overlapping groups.

    Predictions are multicalibrated if they are calibrated in each of several groups,
    which may overlap. This is the largest :func:`cutoff_calibration_error` of a group
    or of all samples, without bins. Each is multiplied by the square root of the
    fraction of samples in the group, so that the noise of small groups does not
    dominate. Lower is better: 0 is best, 1 is worst.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class, which is the second of the two labels.

    groups : array-like of shape (n_samples,) or (n_samples, n_columns)
        Groups of each sample, of any type. Each column divides the samples into groups,
        which overlap with those of other columns. Missing values form a group. All
        samples together are always a group. The combinations of two columns, which are
        the groups in :func:`per_group`, are included only if a column contains them.

    scale : {"size", "noise"}, default="size"
        Factor of the error of a group. "size": the square root of the fraction of
        samples in the group. "noise": the ratio of the standard deviations that the
        errors of all samples and of the group have for calibrated predictions.

    mode : {"top_label", "positive", "classwise"}, default=None
        Probability that is evaluated: that of the predicted class, that of the positive
        class (of two), or that of each class, with the largest error over all classes.
        By default, "top_label" for a 2-d array and "positive" for a 1-d array.

    pos_label : label, default=None
        Label of the positive class of a binary problem. It sets the mode to "positive";
        a 1-d array then contains the probabilities of this class. By default, the
        second of the two labels.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`, such as `estimator.classes_`. By default,
        the sorted distinct values of `y_true`, which must then contain every class.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. A weight of 2 is equivalent to including the sample twice.

    Returns
    -------
    error : float
        Multicalibration error, in [0, 1]. With `scale="noise"`, it may be larger, and
        infinite if predictions of a group are 0 or 1 and wrong.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, `y_proba` contains values
        that are not probabilities, or `groups` does not have a row for each sample.

    See Also
    --------
    cutoff_calibration_error : The error without groups.
    per_group : Any metric for each group, to see which group is miscalibrated.
    worst_group : Any metric of the group for which it is worst.

    Notes
    -----
    With the evaluated probabilities :math:`p_i`, outcomes :math:`y_i` and the fraction
    :math:`\pi_g = n_g / n` of samples in the group g, the error is

    .. math:: \max_g \sqrt{\pi_g} \max_{a \le b}
        \Big|\frac{1}{n_g} \sum_{i \in g,\, a \le p_i \le b} (y_i - p_i)\Big|.

    For calibrated predictions and many samples, the mean of the term of a group is
    about :math:`1.6 \sqrt{v_g / n}` with :math:`v_g`, the mean of :math:`p_i (1 - p_i)`
    in the group, at most 1/4. It does not depend on the size of the group.

    With `scale="noise"`, the factor is :math:`\sqrt{\pi_g v / v_g}`, where :math:`v` is
    the mean over all samples. Without weights, this is the error of [1]_ that MCGrad
    reports as `mce`. All groups have the same noise, but for groups with extreme
    probabilities, the factor is large, and single samples can dominate.

    The maximum increases with the number of groups. To test whether it is larger than
    for calibrated predictions with the same groups, pass
    `functools.partial(multicalibration_error, groups=groups)` to
    :func:`consistency_test`, or to :func:`bootstrap_interval` for an interval.

    The scorer "neg_multicalibration_error" receives the groups by metadata routing:
    after `sklearn.set_config(enable_metadata_routing=True)`, use `cross_validate(...,
    scoring="neg_multicalibration_error", params={"groups": groups})`.

    References
    ----------
    .. [1] I. Guy, D. Haimovich, F. Linder, N. Okati, L. Perini, N. Tax and M. Tygert,
       "Measuring multi-calibration", arXiv:2506.11251, 2025.

    Examples
    --------
    The errors of the groups cancel out over all samples:

    >>> from sklearn_calib.metrics import multicalibration_error
    >>> y_true, y_proba = [0, 0, 0, 1, 1, 1, 1, 0], [0.5] * 8
    >>> groups = ["old", "old", "old", "old", "young", "young", "young", "young"]
    >>> round(multicalibration_error(y_true, y_proba, groups=groups), 3)
    0.177
    >>> multicalibration_error(y_true, y_proba, groups=["all"] * 8)
    0.0
    """
    samples = read_samples(y_true, y_proba, labels, sample_weight, mode, pos_label)
    errors: list[float] = []
    families: list[Ints] = []
    for value, outcome, weight in samples_by_class(samples):
        families = families or _families(groups, len(value))
        weight = np.ones(len(value)) if weight is None else weight
        order = np.argsort(value)
        order = order[weight[order] > 0]
        value = value[order].astype(np.float64)
        data = value, outcome[order] - value, weight[order]
        errors += [_largest_gap(*data, codes[order], scale) for codes in families]
    return max(errors)


def _families(groups: ArrayLike, n_samples: int) -> list[Ints]:
    """Return the group of each sample in each family; the last is that of all."""
    frame = group_frame(groups, n_samples)
    everyone = np.zeros(n_samples, dtype=np.int64)
    families = [*encode_groups(frame, distinct_values(frame)).T, everyone]
    # Small integers are sorted in linear time.
    return [codes.astype(np.min_scalar_type(codes.max())) for codes in families]


def _largest_gap(
    value: Floats, residual: Floats, weight: Floats, group: Ints, scale: str
) -> float:
    """Return the largest scaled gap of the groups of one family.

    The samples are sorted by the value.
    """
    order = np.argsort(group, kind="stable")
    value, group, weight = value[order], group[order], weight[order]
    cumulated = np.cumsum(weight * residual[order])
    is_last = _is_last(group)
    # Samples with the same probability are in the same intervals.
    ends = np.flatnonzero(is_last | _is_last(value))
    last = np.flatnonzero(is_last[ends])
    start = np.append(0, last[:-1] + 1)
    before = np.append(0, cumulated[ends][last[:-1]])
    highest = np.maximum(np.maximum.reduceat(cumulated[ends], start), before)
    lowest = np.minimum(np.minimum.reduceat(cumulated[ends], start), before)
    size = weight if scale == "size" else weight * value * (1 - value)
    size = np.add.reduceat(size, np.append(0, np.flatnonzero(is_last)[:-1] + 1))
    total, gap = size.sum(), highest - lowest
    with np.errstate(divide="ignore"):
        ratio = np.divide(total, size, out=np.ones(len(size)), where=size < total)
    scaled = np.sqrt(ratio[gap > 0]) * gap[gap > 0] / weight.sum()
    return float(scaled.max(initial=0))


def _is_last(ordered: Floats | Ints) -> np.ndarray:
    """Return whether each value is the last of equal ones."""
    return np.append(ordered[1:] != ordered[:-1], True)
