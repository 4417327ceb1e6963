"""Validation of data, classes and weights for a network."""

import numpy as np
import torch
from scipy.sparse import csr_matrix, issparse
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data
from skorch.helper import SliceDataset
from skorch.utils import is_dataset
from torch.utils.data import DataLoader

from sklearn_calib._validation.arrays import check_numbers, is_dict, shown
from sklearn_calib._validation.labels import as_labels


def check_data(estimator, *arrays, reset):
    """Validate X, or X and y, and convert X to the precision of an estimator.

    A sparse X is returned in CSR format, and a dict of several inputs as a dict of
    arrays. With `reset`, the estimator stores the dtype and the number of dimensions of
    X, or the names of its inputs. Otherwise X must agree with those stored.
    """
    X, *y = [_on_cpu(array) for array in arrays]
    if isinstance(X, SliceDataset):
        X = np.asarray(X)
    if isinstance(X, DataLoader):
        raise TypeError(
            "X must be an array or a Dataset, got a DataLoader. Pass its attribute "
            "dataset, and set batch_size."
        )
    if is_dataset(X):
        raise TypeError(
            f"X must be an array for {type(estimator).__name__}, got a Dataset: "
            f"{type(X).__name__}. Use NeuralClassifier, or a memory map."
        )
    if y and y[0] is not None:
        y = [as_labels(y[0], "y")]
    if reset:
        estimator._data_dtype = estimator.dtype
        estimator._data_names = [*X] if is_dict(X) else None
        estimator._data_ndim = None
    is_first = estimator._data_dtype is None  # of a network that was trained elsewhere
    _check_names(X, [*X] if is_first and is_dict(X) else estimator._data_names)
    check = _check_inputs if is_dict(X) else _check_array
    with np.errstate(over="ignore"):  # reported as infinite values
        checked = check(estimator, X, *y, reset=reset)
    if y:
        check_classification_targets(checked[1])
    return checked


def _check_array(estimator, X, *y, reset):
    """Validate an array or a sparse matrix, and labels."""
    # validate_data would convert dates, and strings that represent numbers.
    X = check_numbers(X, "X")
    checked = validate_data(
        estimator,
        X,
        *y,
        reset=reset,
        dtype=estimator._data_dtype or estimator.dtype,
        accept_sparse="csr",
        allow_nd=True,
    )
    X = _as_matrix(checked[0] if y else checked)
    if reset:
        estimator._data_ndim = X.ndim
    elif estimator._data_ndim not in (None, X.ndim):
        raise ValueError(
            f"X must have {estimator._data_ndim} dimensions, as in fit, got shape "
            f"{X.shape}. Reshape X, or call fit with data of this shape."
        )
    return (X, checked[1]) if y else X


def _check_inputs(estimator, X, *y, reset):
    """Validate a dict of several inputs, and labels."""
    dtype = estimator._data_dtype or estimator.dtype
    X = {name: _check_input(X[name], f"X[{name!r}]", dtype) for name in X}
    if reset:
        for name in ("n_features_in_", "feature_names_in_"):
            vars(estimator).pop(name, None)
    if not y:
        check_consistent_length(*X.values())
        return X
    checked = validate_data(estimator, y=y[0], reset=reset)
    check_consistent_length(*X.values(), checked)
    return X, checked


def _check_input(values, name, dtype):
    """Validate one of several inputs; integers and booleans are not converted."""
    options = {"ensure_2d": False, "allow_nd": True, "accept_sparse": "csr"}
    values = check_numbers(_on_cpu(values), name)
    values = check_array(values, ensure_all_finite=False, input_name=name, **options)
    dtypes = {"b": np.bool_, "i": np.int64, "u": np.int64}
    dtype = dtypes.get(values.dtype.kind, dtype)
    return _as_matrix(check_array(values, dtype=dtype, input_name=name, **options))


def _as_matrix(X):
    """Return a sparse array as a matrix, of which skorch's Dataset can take a row."""
    return csr_matrix(X) if issparse(X) else X


def _check_names(X, names):
    """Raise an error unless X is an array or a dict of inputs, as in fit."""
    has_names = is_dict(X)
    if has_names and not (X and all(isinstance(name, str) for name in X)):
        raise TypeError(
            "X must be an array, or a dict that maps the arguments of the module's "
            f"forward to arrays, got a dict with the keys {shown([*X])}. Name the "
            "inputs."
        )
    if has_names != (names is not None) or (has_names and {*X} != {*names}):
        wanted = "an array" if names is None else f"a dict of the inputs {shown(names)}"
        got = f"a dict of {shown([*X])}" if has_names else "an array"
        raise ValueError(f"X must be {wanted}, as in fit, got {got}. Call fit again.")


def check_one_input(X):
    """Raise TypeError for a dict of several inputs."""
    if is_dict(X):
        raise TypeError(
            f"X must be an array for RefCalClassifier, got a dict of {shown([*X])}. "
            "Use NeuralClassifier, or concatenate the inputs."
        )


def sample_shape(X):
    """Return the shape of one sample, empty for a dict of several inputs."""
    if isinstance(X, SliceDataset):
        return () if is_dict(X[0]) else np.shape(X[0])
    return () if is_dict(X) else X.shape[1:]


def _on_cpu(array):
    """Copy a tensor with values to the CPU; return anything else unchanged."""
    is_movable = isinstance(array, torch.Tensor) and not array.is_meta
    return array.cpu() if is_movable else array


def check_table_or_images(ndim, name, hint):
    """Raise ValueError for data that have no default network or augmentation."""
    if ndim not in (2, 4):
        got = f"X of {ndim} dimensions" if ndim > 1 else "a dict of several inputs"
        raise ValueError(
            f"{name} must be given unless X is a table of shape (n_samples, "
            "n_features) or images of shape (n_samples, n_channels, height, width), "
            f"got {got}. {hint}"
        )


def check_two_classes(classes):
    """Raise ValueError unless at least two classes remain."""
    if len(classes) < 2:
        raise ValueError(
            "y must hold at least 2 classes with a positive sample_weight, got "
            f"{len(classes)} class: {classes}. Pass samples of another class."
        )


def check_representable(sample_weight, dtype, name):
    """Raise ValueError if weights become 0 or infinite in the network's precision."""
    limits = np.finfo(dtype)
    positive = sample_weight[sample_weight > 0]
    if positive.min() < limits.tiny or sample_weight.sum() > limits.max:
        raise ValueError(
            f"{name} must stay positive and have a finite sum in {dtype}, got "
            f"weights in [{positive.min():.3g}, {positive.max():.3g}]. Divide them by "
            "their mean, and leave out samples with negligible weights."
        )


def drop_zeros(X, codes, sample_weight):
    """Leave out samples of weight zero, which would still fill mini-batches."""
    kept = sample_weight > 0
    if kept.all():
        return X, codes, sample_weight
    X = {name: X[name][kept] for name in X} if is_dict(X) else X[kept]
    return X, codes[kept], sample_weight[kept]
