"""Validation of data, classes and weights for a network."""

from collections.abc import Callable, Iterator
from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.sparse import csr_matrix, issparse
from sklearn.utils import check_array, check_consistent_length, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data
from skorch.dataset import unpack_data
from skorch.helper import SliceDataset
from skorch.utils import is_dataset
from torch.utils.data import DataLoader, IterableDataset, Subset

from sklearn_calib._validation.arrays import check_numbers, is_dict, shown
from sklearn_calib._validation.declarations import did_you_mean
from sklearn_calib._validation.labels import (
    as_labels,
    distinct_labels,
    encode_labels,
)
from sklearn_calib._validation.types import Array, Floats, Ints, Weights
from sklearn_calib.estimators._neural.batches import Batch, as_batch, have_one_shape


def check_data(estimator: Any, *arrays: Any, reset: bool) -> Any:
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


def _check_array(estimator: Any, X: Any, *y: Any, reset: bool) -> Any:
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


def _check_inputs(estimator: Any, X: Any, *y: Any, reset: bool) -> Any:
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


def _check_input(values: Any, name: str, dtype: Any) -> Any:
    """Validate one of several inputs; integers and booleans are not converted."""
    options = {"ensure_2d": False, "allow_nd": True, "accept_sparse": "csr"}
    values = check_numbers(_on_cpu(values), name)
    values = check_array(values, ensure_all_finite=False, input_name=name, **options)
    dtypes = {"b": np.bool_, "i": np.int64, "u": np.int64}
    dtype = dtypes.get(values.dtype.kind, dtype)
    return _as_matrix(check_array(values, dtype=dtype, input_name=name, **options))


def _as_matrix(X: Any) -> Any:
    """Return a sparse array as a matrix, of which skorch's Dataset can take a row."""
    return csr_matrix(X) if issparse(X) else X


def _check_names(X: Any, names: list[str] | None) -> None:
    """Raise an error unless X is an array or a dict of inputs, as in fit."""
    has_names = is_dict(X)
    if has_names and not (X and all(isinstance(name, str) for name in X)):
        raise TypeError(
            "X must be an array, or a dict that maps the arguments of the module's "
            f"forward to arrays, got a dict with the keys {shown([*X])}. Name the "
            "inputs."
        )
    if has_names != (names is not None) or (has_names and {*X} != {*(names or ())}):
        wanted = "an array" if names is None else f"a dict of the inputs {shown(names)}"
        got = f"a dict of {shown([*X])}" if has_names else "an array"
        raise ValueError(f"X must be {wanted}, as in fit, got {got}. Call fit again.")


def check_one_input(X: Any) -> None:
    """Raise TypeError for a dict of several inputs."""
    if is_dict(X):
        raise TypeError(
            f"X must be an array for RefCalClassifier, got a dict of {shown([*X])}. "
            "Use NeuralClassifier, or concatenate the inputs."
        )


def sample_shape(X: Any) -> tuple[int, ...]:
    """Return the shape of one sample, empty for a dict of several inputs."""
    return () if is_dict(X) else X.shape[1:]


def _on_cpu(array: Any) -> Any:
    """Copy a tensor with values to the CPU; return anything else unchanged."""
    is_movable = isinstance(array, torch.Tensor) and not array.is_meta
    return array.cpu() if is_movable else array


def check_table_or_images(ndim: int, name: str, hint: str) -> None:
    """Raise ValueError for data that have no default network or augmentation."""
    if ndim not in (2, 4):
        got = f"X of {ndim} dimensions" if ndim > 1 else "a dict of several inputs"
        raise ValueError(
            f"{name} must be given unless X is a table of shape (n_samples, "
            "n_features) or images of shape (n_samples, n_channels, height, width), "
            f"got {got}. {hint}"
        )


def check_several_classes(classes: Array) -> None:
    """Raise ValueError unless at least two classes remain."""
    if len(classes) < 2:
        raise ValueError(
            "y must hold at least 2 classes with a positive sample_weight, got "
            f"{len(classes)} class: {classes}. Pass samples of another class."
        )


def check_representable(sample_weight: Floats, dtype: Any, name: str) -> None:
    """Raise ValueError if weights become 0 or infinite in the network's precision."""
    limits = np.finfo(dtype)
    positive = sample_weight[sample_weight > 0]
    if positive.min() < limits.tiny or sample_weight.sum() > limits.max:
        raise ValueError(
            f"{name} must stay positive and have a finite sum in {dtype}, got "
            f"weights in [{positive.min():.3g}, {positive.max():.3g}]. Divide them by "
            "their mean, and leave out samples with negligible weights."
        )


def drop_zeros(X: Any, codes: Array, sample_weight: Any) -> Any:
    """Leave out samples of weight zero, which would still fill mini-batches."""
    kept = sample_weight > 0
    if kept.all():
        return X, codes, sample_weight
    X = {name: X[name][kept] for name in X} if is_dict(X) else X[kept]
    return X, codes[kept], sample_weight[kept]


class CheckedBatches:
    """Mini-batches of a dataset, validated and encoded as arrays are.

    Since it is not a `DataLoader`, accelerate does not divide it between processes.

    Parameters
    ----------
    net : NeuralClassifier
        The net that takes the batches.

    batches : iterable
        The batches of the dataset.

    dataset : Dataset
        The dataset.

    name : {"iterator_train", "iterator_valid"}
        The parameter that returned the batches.

    is_validated : bool
        Whether the dataset consists of arrays that are validated and encoded.

    classes : ndarray of shape (n_classes,) or None
        The labels to encode; None leaves labels that are encoded or not used.
    """

    def __init__(
        self,
        net: Any,
        batches: Any,
        dataset: Any,
        *,
        name: str,
        is_validated: bool,
        classes: Array | None,
    ) -> None:
        self.net, self.batches, self.dataset, self.name = net, batches, dataset, name
        self.is_validated, self.classes = is_validated, classes

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        n_batches = 0
        for n_batches, batch in enumerate(self.batches, 1):  # noqa: B007 - counted
            yield batch if self.is_validated else self._check(as_batch(batch))
        if not n_batches:
            name = f"{self.net._stage_prefix}{self.name}"
            refuse_no_batch(self.batches, self.dataset, name)

    def _check(self, batch: Batch) -> Batch:
        X, y = unpack_data(batch)
        X = check_data(self.net, X, reset=False)
        checked = Batch((_to_tensors(X), self._encode(y)))
        vars(checked).update(vars(batch))
        return checked

    def _encode(self, y: Any) -> Any:
        if self.classes is None:
            return y
        labels, n_classes = self.classes, len(self.classes)
        codes = encode_labels(
            y.cpu() if isinstance(y, torch.Tensor) else y,
            labels=labels,
            n_classes=n_classes,
            name="y",
        )
        return torch.from_numpy(codes)


def refuse_no_batch(batches: Any, dataset: Any, name: str) -> None:
    """Raise ValueError for a pass over a dataset that returned no mini-batch."""
    is_stream = isinstance(dataset, IterableDataset)
    drops_last = getattr(batches, "drop_last", False)
    if not drops_last and (is_stream or not len(dataset)):
        raise ValueError(
            "X must contain at least one sample each time it is iterated, got an empty "
            "Dataset. Check its files. An IterableDataset must start again in each "
            "epoch."
        )
    given = "an IterableDataset" if is_stream else f"{len(dataset)} samples"
    reason = ""
    way_out = "Return a DataLoader or a list; a generator ends with the first epoch."
    if drops_last:
        reason = f" with drop_last=True and batch_size={batches.batch_size}"
        way_out = f"Lower batch_size, or remove {name}__drop_last."
    raise ValueError(
        f"{name} must return at least one mini-batch in each epoch, got none of {given}"
        f"{reason}. {way_out}"
    )


def check_n_predicted(net: Any, n_predicted: int, dataset: Any) -> None:
    """Raise ValueError unless there is a prediction for each sample of a dataset."""
    options = net.get_params_for("iterator_valid")
    is_batched = "batch_size" in options and options["batch_size"] is None
    if is_batched or isinstance(dataset, IterableDataset):
        return
    if n_predicted != len(dataset):
        raise ValueError(
            "iterator_valid must return each sample once, and module one row for each, "
            f"got {n_predicted} rows for {len(dataset)} samples. Use the default "
            "iterator_valid, or correct the module."
        )


def check_rows(net: Any, X: Any, *y: Any, reset: bool) -> Any:
    """Validate X, or X and y, as `check_data`, but do not load a `SliceDataset`.

    Its samples are validated one batch at a time.
    """
    if not isinstance(X, SliceDataset):
        return check_data(net, X, *y, reset=reset)
    if not len(X):
        raise ValueError(
            "X must contain at least one sample, got an empty SliceDataset."
        )
    if not y:
        return X
    labels = validate_data(net, y=as_labels(y[0], "y"), reset=False)
    check_classification_targets(labels)
    check_consistent_length(X, labels)
    return X, labels


def _to_tensors(X: Any) -> Any:
    """Return validated data as tensors."""
    if is_dict(X):
        return {name: _to_tensors(part) for name, part in X.items()}
    return torch.from_numpy(np.require(X, requirements="W"))


def explain_floats(infer: Callable[..., Any], *args: Any, **params: Any) -> Any:
    """Return the output of a network; explain an `Embedding` that gets floats."""
    try:
        return infer(*args, **params)
    except RuntimeError as error:
        if "scalar types: Long, Int" not in str(error):
            raise
        raise TypeError(
            "X must contain integers for torch.nn.Embedding, got floats, to which "
            "arrays are converted. Pass a dict of the arguments of the module's "
            "forward, such as {'X': X}, whose integers keep their type, or call "
            "X.long() in forward."
        ) from error


def check_takes_dataset(
    net: Any, y: Any, sample_weight: Any, classes: Array | None
) -> None:
    """Raise ValueError for arguments of fit that need the labels of all samples."""
    for name, value, way_out in [
        ("y", y, "The dataset returns pairs of a sample and its label"),
        ("sample_weight", sample_weight, "Pass arrays, or np.memmap"),
        ("class_weight", net.class_weight, "Pass arrays, or np.memmap"),
    ]:
        if value is not None:
            raise ValueError(
                f"{name} must be None if X is a Dataset, got {type(value).__name__}. "
                f"{way_out}."
            )
    if classes is None:
        raise ValueError(
            "classes must be given if X is a Dataset, got None. Pass all labels that "
            "the dataset returns, such as classes=range(10)."
        )


def check_can_take_datasets(net: Any) -> None:
    """Raise ValueError for a training that cannot use torch's datasets."""
    if not net.use_caching:
        raise ValueError(
            "use_caching must not be False for a Dataset, because callbacks get its "
            "labels only from the cached validation pass. Use the default, True."
        )


def pair_validation(X: Any, y: Any) -> Any:
    """Return X_val and y_val of fit as a pair, a Dataset or None."""
    if y is None and (X is None or is_dataset(X)):
        return X
    for name, value, other in [("X_val", X, "y_val"), ("y_val", y, "X_val")]:
        if value is None:
            raise ValueError(
                f"{name} must be given if {other} is, got None. Pass both."
            )
    if is_dataset(X):
        raise ValueError(
            f"y_val must be None if X_val is a Dataset, got {type(y).__name__}. The "
            "dataset returns pairs of a sample and its label."
        )
    return X, y


def check_no_split(net: Any) -> None:
    """Raise ValueError for parameters that contradict a given validation set."""
    for name in ("train_split", "validation_fraction", "refit"):
        value = getattr(net, name)
        if value:
            raise ValueError(
                f"{name} must not be set if X_val is given, got {shown(value)}. Remove "
                f"{name}, or X_val and y_val."
            )


def check_pair(validation: Any, wanted: str) -> None:
    """Raise TypeError unless a validation set is a pair (X, y)."""
    if not (isinstance(validation, tuple | list) and len(validation) == 2):
        raise TypeError(
            f"`validation` must be {wanted}, got {type(validation).__name__}. Write "
            "validation=(X_valid, y_valid)."
        )


def check_has_length(dataset: Any, name: str, value: Any, way_out: str) -> None:
    """Raise ValueError for an option that needs the number of samples of a stream."""
    if isinstance(dataset, IterableDataset):
        raise ValueError(
            f"{name} must not be {shown(value)} for an IterableDataset, whose number "
            f"of samples is unknown. {way_out}"
        )


def read_first_batch(net: Any, X: Any, *, reset: bool) -> tuple[int, ...]:
    """Validate the first batch of a dataset, and return the shape of a sample.

    Of a `SliceDataset`, it is the first sample.
    """
    is_sliced = isinstance(X, SliceDataset)
    dataset = Subset(net.get_dataset(X), [0]) if is_sliced else X
    # Neither a DataLoader nor augmentation changes what fit draws.
    with torch.random.fork_rng(devices=()):
        batches = net._get_batches(dataset, training=False)
        batch = next(iter(batches), None)
    if batch is None:
        refuse_no_batch(batches, dataset, "iterator_valid")
    X, _ = unpack_data(as_batch(batch))
    shape = sample_shape(check_data(net, X, reset=reset))
    if reset and not have_one_shape(batches):
        # Sequences are padded to the longest one of a batch.
        for name in ("n_features_in_", "feature_names_in_"):
            vars(net).pop(name, None)
    return shape


def check_partial_fit(net: Any, classes: ArrayLike | None) -> Array | None:
    """Return the classes of a call of partial_fit, after checking them."""
    if net.early_stopping:
        raise ValueError(
            "early_stopping must be False for partial_fit, which does not hold out "
            f"validation data, got {shown(net.early_stopping)}. Call fit instead."
        )
    if net.class_weight == "balanced":
        raise ValueError(
            "class_weight must not be 'balanced' for partial_fit, which sees a part of "
            "the data. Pass the weights of all data as a dict: use "
            "sklearn.utils.compute_class_weight."
        )
    known = net.classes_inferred_
    if known is None and classes is None:
        raise ValueError(
            "classes must be given in the first call of partial_fit, got None. "
            "Pass all classes, such as numpy.unique(y) of the whole data."
        )
    return check_same_classes(known, classes)


def distinct_classes(classes: ArrayLike) -> Array:
    """Return the classes in the given order; raise ValueError unless they differ."""
    given = as_labels(classes, "classes")
    if given.ndim != 1 or not 2 <= len(np.unique(given)) == len(given):
        raise ValueError(
            "classes must contain at least two distinct labels, one for each logit, "
            f"got {shown(given.tolist())}. Pass them in the order of the logits."
        )
    return given


def _sorted_classes(classes: ArrayLike) -> Array:
    """Return the sorted distinct classes; raise an error for other than labels."""
    given = as_labels(classes, "classes")
    if given.ndim != 1:
        raise ValueError(
            f"classes must be a 1-d array of labels, got the shape {given.shape}. Pass "
            "all classes, such as numpy.unique(y) of the whole data."
        )
    distinct_labels(given, "classes")  # refuses labels that cannot be sorted
    return np.unique(given)


def check_same_classes(known: Array | None, classes: ArrayLike | None) -> Array | None:
    """Return the sorted classes; raise ValueError if they are known to be others."""
    given = None if classes is None else _sorted_classes(classes)
    if known is None or given is None:
        return given if known is None else known
    if not np.array_equal(given, np.unique(known)):
        raise ValueError(
            f"classes must stay {shown(known.tolist())} after the first call of "
            f"partial_fit, or of fit with warm_start, got {shown(given.tolist())}. "
            "Omit classes, or call fit."
        )
    return known


def check_class_weight(class_weight: dict[Any, float] | str | None) -> None:
    """Raise ValueError for a dict with a value that is not a weight."""
    given = class_weight if isinstance(class_weight, dict) else {}
    for label, weight in given.items():
        if not (isinstance(weight, Real) and 0 <= weight < np.inf):
            raise ValueError(
                "class_weight must map labels to non-negative finite numbers, got "
                f"{shown(weight)} for {shown(label)}. Use 0 to leave out a class."
            )


def _check_labels_of_weights(class_weight: Any, classes: Array) -> None:
    """Raise ValueError for unknown labels, under the condition of scikit-learn."""
    known = classes.tolist()
    unknown = [label for label in class_weight if label not in known]
    if unknown and not all(label in class_weight for label in known):
        raise ValueError(
            "class_weight must map labels of y to weights, got the unknown label "
            f"{shown(unknown[0])}; the labels are {shown(known)}."
            f"{did_you_mean(unknown[0], known)} Correct or remove it."
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
        _check_labels_of_weights(class_weight, classes)
        of_class = compute_class_weight(class_weight, classes=classes, y=classes)
    weight = weight * of_class[codes]
    if not weight.any():
        raise ValueError(
            "class_weight must leave samples with a positive weight, got "
            f"{shown(class_weight)}. Give at least two classes a positive weight."
        )
    return weight
