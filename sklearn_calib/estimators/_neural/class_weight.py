"""Weights of classes, which multiply the weights of their samples."""

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import compute_class_weight

from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.types import Array, Ints, Weights


def check_class_weight(class_weight: dict[Any, float] | str | None) -> None:
    """Raise ValueError for a dict with a value that is not a weight."""
    given = class_weight if isinstance(class_weight, dict) else {}
    for label, weight in given.items():
        if not (isinstance(weight, Real) and 0 <= weight < np.inf):
            raise ValueError(
                "class_weight must map labels to non-negative finite numbers, got "
                f"{shown(weight)} for {shown(label)}. Use 0 to leave out a class."
            )


def multiply_class_weight(
    class_weight: dict[Any, float] | str | None,
    codes: Ints,
    classes: Array,
    sample_weight: Weights,
) -> Weights:
    """Return the sample weights multiplied by the weight of each sample's class.

    "balanced" is as in scikit-learn: the classes have equal total weights, and the
    weight of all samples stays the same. A dict gives the weight of each label, 1 for
    labels that it does not contain.
    """
    if class_weight is None:
        return sample_weight
    weight = np.ones(len(codes)) if sample_weight is None else sample_weight
    if class_weight == "balanced":
        totals = np.bincount(codes, weight, minlength=len(classes))
        n_present = np.count_nonzero(totals)
        of_class = totals.sum() / (n_present * np.where(totals, totals, np.inf))
    else:
        of_class = compute_class_weight(class_weight, classes=classes, y=classes)
    weight = weight * of_class[codes]
    if not weight.any():
        raise ValueError(
            "class_weight must leave samples with a positive weight, got "
            f"{shown(class_weight)}. Give at least two classes a positive weight."
        )
    return weight
