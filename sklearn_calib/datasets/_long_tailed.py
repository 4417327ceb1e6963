"""Few samples of some classes, and few classes: what papers do to balanced data."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_consistent_length, check_random_state

from sklearn_calib._core.typing import Array, Floats, Ints, Seed
from sklearn_calib._core.validation import (
    Interval,
    StrOptions,
    distinct_labels,
    validate_params,
)

# The shape of the Pareto distribution that ImageNet-LT was drawn from.
PARETO_SHAPE = 6


def _exponential(n_classes: int, imbalance_factor: float) -> Floats:
    """Return a constant ratio from each class to the next."""
    return imbalance_factor ** (np.arange(n_classes) / (n_classes - 1))


def _pareto(n_classes: int, imbalance_factor: float) -> Floats:
    """Return quantiles of a Pareto distribution, cut off below."""
    share = np.arange(1, n_classes + 1) / n_classes
    quantile = share ** (-1 / PARETO_SHAPE) - 1
    return np.maximum(quantile / quantile[0], imbalance_factor)


PROFILES = {"exponential": _exponential, "pareto": _pareto}


@validate_params(
    {
        "y": ["array-like"],
        "imbalance_factor": [Interval(Real, 0, 1, closed="right")],
        "profile": [StrOptions(set(PROFILES))],
        "class_order": ["array-like", None],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def make_long_tailed(
    X: Any,
    y: Any,
    *,
    imbalance_factor: float,
    profile: str = "exponential",
    class_order: ArrayLike | None = None,
    random_state: Seed = None,
) -> tuple[Any, Any]:
    r"""Leave out samples until few classes have many, and many classes have few.

    The samples that stay are drawn at random from each class, and keep their order.

    Parameters
    ----------
    X : array-like of shape (n_samples, ...)
        Samples: a table, images or a DataFrame.

    y : array-like of shape (n_samples,)
        Labels, of any kind.

    imbalance_factor : float
        Size of the smallest class divided by that of the largest, in (0, 1]. Papers
        that have the largest divided by the smallest say 100 for 0.01.

    profile : {"exponential", "pareto"}, default="exponential"
        How the sizes fall from class to class: by a constant ratio, as in CIFAR-LT, or
        as the quantiles of a Pareto distribution of the shape 6, as in ImageNet-LT, of
        which most classes are small.

    class_order : array-like of shape (n_classes,), default=None
        The labels from the largest class to the smallest. By default they are sorted.

    random_state : int, RandomState instance or None, default=None
        Controls which samples stay. Pass an int for repeatable data.

    Returns
    -------
    X : ndarray or DataFrame of shape (n_kept, ...)
        Samples that stay.

    y : ndarray or Series of shape (n_kept,)
        Their labels.

    Raises
    ------
    ValueError
        If there are less than two classes, or a class would have no sample left, or
        `class_order` does not hold each label once.

    See Also
    --------
    group_classes : Make two classes of many.

    Notes
    -----
    With the share :math:`s_k` of class :math:`k` of :math:`K` in the largest, from
    :math:`k = 0` on, a class keeps :math:`\lfloor n s_k \rfloor` samples. "exponential"
    is :math:`s_k = f^{k / (K - 1)}` with the imbalance factor :math:`f` [1]_ [2]_.
    "pareto" is :math:`s_k = \max(q_k / q_0, f)` with the quantiles
    :math:`q_k = (K / (k + 1))^{1/6} - 1`. With 1000 classes of up to 1280 images and 5
    at least these add up to 117 059 images; ImageNet-LT [3]_, which was drawn, has
    115 846. :math:`n` is as large as the classes allow: the size of a class where all
    have the same.

    Two classes and the factor r / (1 - r) leave a share r of positives, as the
    imbalance ratio of binary benchmarks has it.

    References
    ----------
    .. [1] Y. Cui, M. Jia, T.-Y. Lin, Y. Song and S. Belongie, "Class-Balanced Loss
       Based on Effective Number of Samples", CVPR 2019, section 5.1.

    .. [2] K. Cao, C. Wei, A. Gaidon, N. Arechiga and T. Ma, "Learning Imbalanced
       Datasets with Label-Distribution-Aware Margin Loss", NeurIPS 2019, section 4.

    .. [3] Z. Liu, Z. Miao, X. Zhan, J. Wang, B. Gong and S. X. Yu, "Large-Scale
       Long-Tailed Recognition in an Open World", CVPR 2019, section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.datasets import make_long_tailed
    >>> X, y = np.arange(300).reshape(300, 1), np.arange(300) % 3
    >>> X, y = make_long_tailed(X, y, imbalance_factor=0.1, random_state=0)
    >>> np.bincount(y)
    array([100,  31,  10])
    """
    check_consistent_length(X, y)
    codes, n_classes = _encode(y, class_order)
    counts = np.bincount(codes)
    shares = PROFILES[profile](n_classes, imbalance_factor)
    # The slack keeps the rounding of the division from costing a sample.
    sizes = np.floor((counts / shares).min() * shares * (1 + 1e-12)).astype(int)
    if sizes.min() < 1:
        raise ValueError(
            "imbalance_factor must leave at least one sample of each class, got "
            f"{imbalance_factor:g} for a largest class of {sizes.max()}. Pass at least "
            f"{1 / sizes.max():.3g}."
        )
    rng = check_random_state(random_state)
    kept = [
        rng.choice(np.flatnonzero(codes == code), size, replace=False)
        for code, size in enumerate(sizes)
    ]
    rows = np.sort(np.concatenate(kept))
    return _take(X, rows), _take(y, rows)


def _encode(y: ArrayLike, class_order: ArrayLike | None) -> tuple[Ints, int]:
    """Return the place of each label in the order, and the number of classes."""
    labels, codes = distinct_labels(y, "y")
    if len(labels) < 2:
        raise ValueError(
            f"y must hold at least 2 classes, got {labels}. A tail needs a head."
        )
    order = labels if class_order is None else np.asarray(class_order).tolist()
    if len(order) != len(labels) or any(label not in order for label in labels):
        raise ValueError(
            f"class_order must hold each label of y once, got {order} for the labels "
            f"{labels}. Leave it out for the sorted labels."
        )
    return np.array([order.index(label) for label in labels])[codes], len(labels)


def _take(array: Any, rows: Ints) -> Any:
    """Return rows of an array, a DataFrame or a list, the last as an array."""
    if hasattr(array, "iloc"):
        return array.iloc[rows]
    return (array if hasattr(array, "shape") else np.asarray(array))[rows]


@validate_params(
    {
        "y": ["array-like"],
        "groups": [StrOptions({"halves", "random"}), dict],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def group_classes(
    y: ArrayLike, groups: str | dict[Any, Any] = "halves", *, random_state: Seed = None
) -> Array:
    """Make few classes of many, such as a binary problem of images of ten kinds.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels, of any kind.

    groups : {"halves", "random"} or dict, default="halves"
        Which classes are one. "halves" makes 0 of the first half of the sorted labels
        and 1 of the others; of an odd number the middle one is a 1. "random" makes
        halves of the labels in random order. A dict maps each new label to a list of
        old ones, such as ``{"animal": ["cat", "dog"], "vehicle": ["car", "ship"]}``.

    random_state : int, RandomState instance or None, default=None
        Controls the order for "random". Pass an int for a repeatable grouping.

    Returns
    -------
    y : ndarray of shape (n_samples,)
        New labels.

    Raises
    ------
    ValueError
        If a label is in no group or in several.

    See Also
    --------
    make_long_tailed : Make one of two classes rare.

    Notes
    -----
    "halves" is the binary version of CIFAR-10, CIFAR-100 and STL-10 in [1]_, to which
    [2]_ compares.

    References
    ----------
    .. [1] Z. Yuan, Y. Yan, M. Sonka and T. Yang, "Large-Scale Robust Deep AUC
       Maximization: A New Surrogate Loss and Empirical Studies on Medical Image
       Classification", ICCV 2021, section 5.

    .. [2] R. Hebbalaguppe, A. Shastry, S. S. Ghosal and C. Arora, "Enhancing DNN
       Reliability with Refinement and Calibration", ICLR Workshop on Trustworthy AI
       2026, section 6.2.

    Examples
    --------
    >>> from sklearn_calib.datasets import group_classes
    >>> group_classes([0, 1, 2, 3])
    array([0, 0, 1, 1])
    >>> group_classes([0, 1, 2, 3], {"low": [0], "high": [1, 2, 3]})
    array(['low', 'high', 'high', 'high'], dtype='<U4')
    """
    labels, codes = distinct_labels(y, "y")
    if not isinstance(groups, dict):
        shuffled = labels
        if groups == "random":
            shuffled = check_random_state(random_state).permutation(labels)
        middle = len(labels) // 2
        groups = {0: shuffled[:middle], 1: shuffled[middle:]}
    members = {group: np.atleast_1d(old).tolist() for group, old in groups.items()}
    found = {
        label: [group for group, old in members.items() if label in old]
        for label in labels
    }
    wrong = {label: names for label, names in found.items() if len(names) != 1}
    if wrong:
        raise ValueError(
            "groups must hold each label of y in exactly one group, got for others "
            f"{wrong}. Leave out the samples of labels that belong to none."
        )
    return np.array([names[0] for names in found.values()])[codes]
