"""Long-tailed data sets and merged classes."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_consistent_length, check_random_state

from sklearn_calib._validation.arrays import safe_indexing, shown
from sklearn_calib._validation.declarations import Interval, StrOptions, validate_params
from sklearn_calib._validation.labels import distinct_labels
from sklearn_calib._validation.types import Array, Floats, Ints, Seed

# Shape parameter of the Pareto distribution of ImageNet-LT.
PARETO_SHAPE = 6


def _exponential(n_classes: int, imbalance_factor: float) -> Floats:
    """Return relative class sizes that decrease by a constant ratio."""
    return imbalance_factor ** (np.arange(n_classes) / (n_classes - 1))


def _pareto(n_classes: int, imbalance_factor: float) -> Floats:
    """Return relative class sizes that are quantiles of a Pareto distribution."""
    level = np.arange(1, n_classes + 1) / n_classes
    quantile = level ** (-1 / PARETO_SHAPE) - 1
    return np.maximum(quantile / quantile[0], imbalance_factor)


PROFILES = {"exponential": _exponential, "pareto": _pareto}


@validate_params(
    {
        "y": ["array-like"],
        "imbalance_factor": [Interval(Real, 0, 1, closed="right")],
        "profile": [StrOptions(set(PROFILES))],
        "class_order": ["array-like", None],
        "random_state": ["random_state"],
    }
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
    r"""Make a long-tailed data set by subsampling the classes.

    The samples of each class are drawn at random. Their order does not change.

    Parameters
    ----------
    X : array-like of shape (n_samples, ...)
        Samples: a table, images or a DataFrame.

    y : array-like of shape (n_samples,)
        Labels, of any kind.

    imbalance_factor : float
        Size of the smallest class divided by that of the largest, in (0, 1]. Some
        papers report the inverse, 100 for 0.01.

    profile : {"exponential", "pareto"}, default="exponential"
        How class sizes decrease: by a constant ratio, as in CIFAR-LT, or as the
        quantiles of a Pareto distribution with shape 6, as in ImageNet-LT, where most
        classes are small.

    class_order : array-like of shape (n_classes,), default=None
        Labels in the order from the largest class to the smallest. By default, they are
        sorted.

    random_state : int, RandomState instance or None, default=None
        Controls which samples are kept. Pass an int for reproducible results.

    Returns
    -------
    X : ndarray or DataFrame of shape (n_kept, ...)
        Selected samples.

    y : ndarray or Series of shape (n_kept,)
        Labels of the selected samples.

    Raises
    ------
    ValueError
        If there are fewer than two classes, no sample of a class would remain, or
        `class_order` does not contain each label once.

    See Also
    --------
    group_classes : Merge classes.

    Notes
    -----
    Class :math:`k = 0, \dots, K - 1` keeps :math:`\lfloor n s_k \rfloor` samples, where
    :math:`s_k` is its size relative to the largest class, and :math:`n` is as large as
    the data allow. For balanced data, :math:`n` is the size of a class.

    For "exponential", :math:`s_k = f^{k / (K - 1)}` with the imbalance factor :math:`f`
    [1]_ [2]_. For "pareto", :math:`s_k = \max(q_k / q_0, f)` with the quantiles
    :math:`q_k = (K / (k + 1))^{1/6} - 1`. With 1000 classes of 5 to 1280 images, this
    gives 117 059 images. ImageNet-LT [3]_, which was sampled from this distribution,
    has 115 846.

    For two balanced classes, the fraction of positives is r with the imbalance factor
    r / (1 - r). Binary benchmarks call r the imbalance ratio.

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
    relative_sizes = PROFILES[profile](n_classes, imbalance_factor)
    # The tolerance prevents rounding errors from removing a sample.
    sizes = np.floor(
        (counts / relative_sizes).min() * relative_sizes * (1 + 1e-12)
    ).astype(int)
    if sizes.min() < 1:
        raise ValueError(
            "imbalance_factor must leave at least one sample of each class, got "
            f"{imbalance_factor:g} with a largest class of {sizes.max()} samples. Pass "
            f"at least {1 / sizes.max():.3g}."
        )
    rng = check_random_state(random_state)
    by_class = np.split(np.argsort(codes, kind="stable"), counts.cumsum()[:-1])
    kept = [
        rng.choice(rows, size, replace=False)
        for rows, size in zip(by_class, sizes, strict=True)
    ]
    rows = np.sort(np.concatenate(kept))
    return _take(X, rows), _take(y, rows)


def _encode(y: ArrayLike, class_order: ArrayLike | None) -> tuple[Ints, int]:
    """Return the position of each label in the order, and the number of classes."""
    labels, codes = distinct_labels(y, "y")
    if len(labels) < 2:
        raise ValueError(
            f"y must contain at least 2 classes, got {shown(labels)}. Add samples of "
            "another class."
        )
    order = labels if class_order is None else np.asarray(class_order).tolist()
    if len(order) != len(labels) or any(label not in order for label in labels):
        raise ValueError(
            f"class_order must contain each label of y once, got {shown(order)} for "
            f"the labels {shown(labels)}. Use class_order=None for the sorted labels."
        )
    return np.array([order.index(label) for label in labels])[codes], len(labels)


def _take(array: Any, rows: Ints) -> Any:
    """Return rows of an array, a table or a list; rows of a list as an array."""
    return safe_indexing(array if hasattr(array, "shape") else np.asarray(array), rows)


@validate_params(
    {
        "y": ["array-like"],
        "groups": [StrOptions({"halves", "random"}), dict],
        "random_state": ["random_state"],
    }
)
def group_classes(
    y: ArrayLike, groups: str | dict[Any, Any] = "halves", *, random_state: Seed = None
) -> Array:
    """Merge classes, for example ten classes into two.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels, of any kind.

    groups : {"halves", "random"} or dict, default="halves"
        Which classes to merge. "halves" maps the first half of the sorted labels to 0
        and the others to 1; for an odd number of labels, the middle one becomes 1.
        "random" does the same for labels in random order. A dict maps each new label to
        a list of old labels, such as ``{"animal": ["cat", "dog"], "vehicle": ["car",
        "ship"]}``.

    random_state : int, RandomState instance or None, default=None
        Controls the order for "random". Pass an int for reproducible results.

    Returns
    -------
    y : ndarray of shape (n_samples,)
        New labels.

    Raises
    ------
    ValueError
        If a label is in no group or in several groups.

    See Also
    --------
    make_long_tailed : Subsample classes, for example to make one of two rare.

    Notes
    -----
    "halves" gives the binary versions of CIFAR-10, CIFAR-100 and STL-10 in [1]_,
    with which [2]_ compares.

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
            "groups must contain each label of y in exactly one group, got labels in "
            f"none or several: {shown(wrong)}. Remove samples of labels without a "
            "group."
        )
    return np.array([names[0] for names in found.values()])[codes]
