"""Training and prediction with torch's datasets, validated one batch at a time."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data
from skorch.dataset import ValidSplit, unpack_data
from skorch.helper import SliceDataset
from skorch.utils import is_dataset
from torch.utils.data import IterableDataset

from sklearn_calib._validation.arrays import is_dict, shown
from sklearn_calib._validation.labels import as_labels, encode_labels
from sklearn_calib._validation.types import Array
from sklearn_calib.estimators._neural.batches import Batch, as_batch, collate
from sklearn_calib.estimators._neural.net_data import check_data, sample_shape


class CheckedBatches:
    """Mini-batches of a dataset, validated and encoded as arrays are.

    Parameters
    ----------
    net : SkorchClassifier
        The net that takes the batches.

    batches : iterable
        The batches of the dataset.

    classes : ndarray of shape (n_classes,) or None
        The labels to encode; None leaves labels that are encoded or not used.
    """

    def __init__(self, net: Any, batches: Iterable[Any], classes: Array | None) -> None:
        self.net, self.batches, self.classes = net, batches, classes

    def __iter__(self) -> Iterator[Batch]:
        n_batches = 0
        for n_batches, batch in enumerate(self.batches, 1):  # noqa: B007 - counted
            yield self._check(as_batch(batch))
        if not n_batches:
            raise ValueError(
                "A Dataset must return at least one sample each time it is iterated, "
                "got none. An IterableDataset must start again in each epoch."
            )

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
        codes = encode_labels(_on_cpu(y), labels=labels, n_classes=n_classes, name="y")
        return torch.from_numpy(codes)


def check_rows(net: Any, X: Any, *y: Any, reset: bool) -> Any:
    """Validate X, or X and y, as `check_data`, but do not load a `SliceDataset`.

    Its first sample is validated here, and the others one batch at a time.
    """
    if not isinstance(X, SliceDataset):
        return check_data(net, X, *y, reset=reset)
    if not len(X):
        raise ValueError(
            "X must contain at least one sample, got an empty SliceDataset."
        )
    check_data(net, collate([(X[0], 0)])[0], reset=reset)
    if not y:
        return X
    labels = validate_data(net, y=as_labels(y[0], "y"), reset=False)
    check_classification_targets(labels)
    check_consistent_length(X, labels)
    return X, labels


def _on_cpu(y: Any) -> Any:
    return y.cpu() if isinstance(y, torch.Tensor) else y


def _to_tensors(X: Any) -> Any:
    """Return validated data as tensors."""
    if is_dict(X):
        return {name: _to_tensors(part) for name, part in X.items()}
    return torch.from_numpy(np.require(X, requirements="W"))


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
            "use_caching must not be False for a Dataset, whose labels are seen in the "
            "validation pass only, got False. Use the default."
        )


def check_validation(validation: Any) -> None:
    """Raise TypeError unless a validation set is a pair (X, y), a Dataset or None."""
    if validation is not None and not is_dataset(validation):
        check_pair(validation, "a pair (X, y), a Dataset or None")


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


def check_split(dataset: Any, split: Any) -> None:
    """Raise ValueError for a split that a dataset does not allow."""
    if isinstance(split, ValidSplit):
        way_out = "Use skorch.helper.predefined_split(valid_dataset)."
        check_has_length(dataset, "train_split", split, way_out)


def read_first_batch(net: Any, dataset: Any, *, reset: bool) -> tuple[int, ...]:
    """Validate the first batch of a dataset, and return the shape of a sample."""
    # Neither the order of the samples nor augmentation changes what fit draws.
    with torch.random.fork_rng(devices=()):
        batch = next(iter(net._get_batches(dataset, training=True)), None)
    if batch is None:
        raise ValueError(
            "X must contain at least one sample, got an empty Dataset. Check its files."
        )
    X, _ = unpack_data(as_batch(batch))
    return sample_shape(check_data(net, X, reset=reset))
