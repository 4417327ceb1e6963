"""Mini-batches of arrays in memory, indexed as a whole instead of sample by sample."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset

from sklearn_calib._core.typing import Array
from sklearn_calib._core.validation import Interval, validate_params


class Batch(tuple):
    """Pair (X, y) of one mini-batch, with the samples' weights and indices."""

    sample_weight: Tensor | None = None
    indices: Tensor | None = None


class ArrayBatches:
    """Mini-batches of arrays, in order or shuffled by torch's global generator.

    A last batch of one sample is merged into the previous one, since batch
    normalisation cannot train on a single sample. X may be an array, a sparse matrix in
    CSR format, of which one batch at a time is dense, or a dict of these.
    """

    def __init__(
        self,
        X: Any,
        y: Array,
        sample_weight: Array | None,
        rows: Array,
        batch_size: int,
        shuffle: bool,
    ) -> None:
        self.take, self.y = _row_taker(X), _to_tensor(y)
        self.sample_weight = (
            None if sample_weight is None else _to_tensor(sample_weight)
        )
        self.rows = torch.from_numpy(rows)
        self.shuffle = shuffle
        starts = np.arange(0, len(rows), batch_size)
        if 1 < batch_size < len(rows) and len(rows) - starts[-1] == 1:
            starts = starts[:-1]
        self.sizes = np.diff(starts, append=len(rows)).tolist()

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator[Batch]:
        order = torch.randperm if self.shuffle else torch.arange
        for indices in order(len(self.rows)).split(self.sizes):
            part = self.rows[indices]
            batch = Batch((self.take(part), self.y.index_select(0, part)))
            batch.indices = indices
            if self.sample_weight is not None:
                batch.sample_weight = self.sample_weight.index_select(0, part)
            yield batch


@validate_params(
    {
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "shuffle": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def iterate_batches(
    dataset: Dataset[Any], batch_size: int = 1, shuffle: bool = False, **kwargs: Any
) -> Iterable[Any]:
    """Return the mini-batches of a dataset, sliced from its arrays if it holds arrays.

    This function is the default of `iterator_train` and `iterator_valid` of
    `NeuralClassifier`. Arrays in memory are indexed one batch at a time, which is
    several times as fast as a `DataLoader` that fetches and collates individual
    samples. Sparse matrices in CSR format are converted to dense tensors one batch at a
    time. If X is a dict, so is the X of each batch. A `DataLoader` is returned for
    other datasets, and if `kwargs` are given.

    Parameters
    ----------
    dataset : skorch.dataset.Dataset or torch.utils.data.Dataset
        The samples, or a `torch.utils.data.Subset` of them.

    batch_size : int, default=1
        Number of samples in a mini-batch.

    shuffle : bool, default=False
        Draw a new order in each pass, from torch's global generator.

    **kwargs : dict
        Options of `torch.utils.data.DataLoader`.

    Returns
    -------
    batches : iterable of (Tensor, Tensor)
        The mini-batches (X, y).

    Examples
    --------
    >>> import numpy as np
    >>> from skorch.dataset import Dataset
    >>> from sklearn_calib.estimators import iterate_batches
    >>> dataset = Dataset(np.zeros((5, 2)), np.arange(5))
    >>> [y.tolist() for _, y in iterate_batches(dataset, batch_size=2)]
    [[0, 1], [2, 3, 4]]
    """
    source, rows = resolve_subset(dataset)
    X, y = getattr(source, "X", None), getattr(source, "y", None)
    sample_weight = getattr(source, "sample_weight", None)
    if not kwargs and _has_rows(X) and isinstance(y, np.ndarray | None):
        y = np.zeros(len(source)) if y is None else y
        return ArrayBatches(X, y, sample_weight, rows, batch_size, shuffle)
    if sample_weight is not None:
        raise ValueError(
            "sample_weight needs batches that are sliced from arrays, got the "
            f"DataLoader options {sorted(kwargs)}. Omit them, or fit without "
            "sample_weight."
        )
    return DataLoader(dataset, batch_size=batch_size, shuffle=shuffle, **kwargs)


def resolve_subset(dataset: Any) -> tuple[Any, Array]:
    """Return the dataset beneath nested subsets, and the indices that they select."""
    rows = np.arange(len(dataset))
    while isinstance(dataset, Subset):
        rows = np.asarray(dataset.indices)[rows]
        dataset = dataset.dataset
    return dataset, rows


def _has_rows(X: Any) -> bool:
    """Return whether X is an array, a CSR matrix or a dict of these."""
    if isinstance(X, Mapping):
        return all(map(_has_rows, X.values()))
    return isinstance(X, np.ndarray) or (issparse(X) and X.format == "csr")


def _row_taker(X: Any) -> Callable[[Tensor], Any]:
    """Return a function that returns the rows of X with given indices as tensors."""
    if isinstance(X, Mapping):
        take = {name: _row_taker(part) for name, part in X.items()}
        return lambda rows: {name: take[name](rows) for name in take}
    if issparse(X):
        return lambda rows: torch.from_numpy(X[rows.numpy()].toarray())
    return partial(torch.index_select, _to_tensor(X), 0)


def _to_tensor(array: Array) -> Tensor:
    """Return a tensor that shares the array's memory, or a copy if it is read-only."""
    return torch.from_numpy(np.require(array, requirements="W"))
