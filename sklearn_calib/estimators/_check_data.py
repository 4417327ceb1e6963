"""Validation of data, classes and weights for a network."""

import numpy as np
import torch
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from sklearn_calib._core.arrays import as_labels, check_numbers


def check_data(estimator, *arrays, reset):
    """Validate X, or X and y, and convert X to the precision of an estimator.

    With `reset`, the estimator stores the dtype and the number of dimensions of X.
    Otherwise X must agree with those stored.
    """
    arrays = [_on_cpu(array) for array in arrays]
    # validate_data would convert dates, and strings that represent numbers.
    arrays[0] = check_numbers(arrays[0], "X")
    if arrays[1:] and arrays[1] is not None:
        arrays[1] = as_labels(arrays[1], "y")
    if reset:
        estimator._data_dtype = estimator.dtype
    dtype = estimator._data_dtype or estimator.dtype
    with np.errstate(over="ignore"):  # reported as infinite values
        checked = validate_data(
            estimator, *arrays, reset=reset, dtype=dtype, allow_nd=True
        )
    X = checked[0] if arrays[1:] else checked
    if reset:
        estimator._data_ndim = X.ndim
    elif estimator._data_ndim not in (None, X.ndim):
        raise ValueError(
            f"X must have {estimator._data_ndim} dimensions, as in fit, got shape "
            f"{X.shape}. Reshape X, or call fit with data of this shape."
        )
    if len(arrays) == 2:
        check_classification_targets(checked[1])
    return checked


def _on_cpu(array):
    """Copy a tensor with values to the CPU; return anything else unchanged."""
    is_movable = isinstance(array, torch.Tensor) and not array.is_meta
    return array.cpu() if is_movable else array


def check_table_or_images(ndim, name, hint):
    """Raise ValueError for data that have no default network or augmentation."""
    if ndim not in (2, 4):
        raise ValueError(
            f"{name} must be given unless X is a table of shape (n_samples, "
            "n_features) or images of shape (n_samples, n_channels, height, width), "
            f"got X of {ndim} dimensions. {hint}"
        )


def check_two_classes(classes):
    """Raise ValueError unless at least two classes remain."""
    if len(classes) < 2:
        raise ValueError(
            "y must hold at least 2 classes with a positive sample_weight, got "
            f"{len(classes)} class: {classes}. Pass samples of another class."
        )


def check_representable(sample_weight, dtype):
    """Raise ValueError if weights become 0 or infinite in the network's precision."""
    limits = np.finfo(dtype)
    positive = sample_weight[sample_weight > 0]
    if positive.min() < limits.tiny or sample_weight.sum() > limits.max:
        raise ValueError(
            f"sample_weight must stay positive and have a finite sum in {dtype}, got "
            f"weights in [{positive.min():.3g}, {positive.max():.3g}]. Divide them by "
            "their mean, and leave out samples with negligible weights."
        )


def drop_zeros(X, codes, sample_weight):
    """Leave out samples of weight zero, which would still fill mini-batches."""
    kept = sample_weight > 0
    if kept.all():
        return X, codes, sample_weight
    return X[kept], codes[kept], sample_weight[kept]
