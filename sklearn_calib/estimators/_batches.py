"""Batches of arrays in memory, cut by indexing instead of sample by sample."""

from collections.abc import Iterable, Iterator
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset

from sklearn_calib._core.typing import Array
from sklearn_calib._core.validation import Interval, validate_params


class Batch(tuple):
    """The pair (X, y) of one batch; beside it the samples' weights and positions."""

    sample_weight: Tensor | None = None
    indices: Tensor | None = None


class ArrayBatches:
    """Iterate over the batches of arrays, in order or shuffled.

    A last batch of one sample joins the batch before it: batch normalisation cannot
    train on one sample. The order is drawn from torch's global generator.
    """

    def __init__(
        self,
        X: Array,
        y: Array,
        sample_weight: Array | None,
        rows: Array,
        batch_size: int,
        shuffle: bool,
    ) -> None:
        self.X, self.y = _to_tensor(X), _to_tensor(y)
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
            batch = Batch((self.X.index_select(0, part), self.y.index_select(0, part)))
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
    """Return the batches of a dataset, cut from its arrays where it holds arrays.

    The default of `NeuralClassifier`'s `iterator_train` and `iterator_valid`. Arrays
    in memory are indexed a batch at a time, several times as fast as a `DataLoader`
    that fetches and collates sample by sample. Any other dataset, and any option of
    `DataLoader` in `kwargs`, gets a `DataLoader`; and so does any dataset where several
    processes train together, since that is what accelerate can deal out to them.

    Parameters
    ----------
    dataset : skorch.dataset.Dataset or torch.utils.data.Dataset
        The samples; a `torch.utils.data.Subset` of either as well.

    batch_size : int, default=1
        Number of samples in a batch.

    shuffle : bool, default=False
        Draw a new order at each pass, from torch's global generator.

    **kwargs : dict
        Options of `torch.utils.data.DataLoader`.

    Returns
    -------
    batches : iterable of (Tensor, Tensor)
        The pairs (X, y).

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
    is_plain = not kwargs and not _is_one_of_many()
    if is_plain and isinstance(X, np.ndarray) and isinstance(y, np.ndarray | None):
        y = np.zeros(len(X)) if y is None else y
        return ArrayBatches(X, y, sample_weight, rows, batch_size, shuffle)
    if sample_weight is not None:
        raise ValueError(
            "sample_weight needs batches that are cut from arrays by one process, got "
            f"the DataLoader options {sorted(kwargs)}. Leave them out and train in one "
            "process, or fit without sample_weight."
        )
    return DataLoader(dataset, batch_size=batch_size, shuffle=shuffle, **kwargs)


def _is_one_of_many() -> bool:
    """Tell whether this process trains together with others."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return False
    return distributed.get_world_size() > 1


def resolve_subset(dataset: Any) -> tuple[Any, Array]:
    """Return the dataset beneath nested subsets, and the rows of it that are meant."""
    rows = np.arange(len(dataset))
    while isinstance(dataset, Subset):
        rows = np.asarray(dataset.indices)[rows]
        dataset = dataset.dataset
    return dataset, rows


def _to_tensor(array: Array) -> Tensor:
    """Share an array with torch, or copy one that may not be written to."""
    return torch.from_numpy(np.require(array, requirements="W"))
