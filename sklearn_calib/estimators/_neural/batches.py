"""Mini-batches of arrays, datasets and streams, taken a whole batch at a time."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import torch
from scipy.sparse import issparse
from skorch.dataset import Dataset as ArrayDataset
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    WeightedRandomSampler,
    default_collate,
)

from sklearn_calib._validation.arrays import shorten, shown
from sklearn_calib._validation.declarations import COUNT, validate_params
from sklearn_calib._validation.types import Array

# Errors of torch for samples that do not make a mini-batch.
MISFITS = (TypeError, RuntimeError, KeyError, ValueError)

# A function that returns the rows with given indices as tensors.
Take: TypeAlias = Callable[[Tensor], Any]


class Batch(tuple[Any, ...]):
    """Pair (X, y) of one mini-batch, with the samples' weights and indices."""

    sample_weight: Tensor | None = None
    indices: Tensor | None = None


def as_batch(batch: Any) -> Batch:
    """Return a mini-batch of a dataset as a `Batch`, with its weights and indices."""
    if isinstance(batch, Batch):
        return batch
    if not (isinstance(batch, tuple | list) and len(batch) == 2):
        raise TypeError(
            "A Dataset must return pairs of a sample and its label, got "
            f"{type(batch).__name__}. Return (X, y); for predictions, y may be 0."
        )
    X = batch[0]
    if isinstance(X, tuple | list) and X and isinstance(X[0], Tensor):
        raise TypeError(
            "The X of a mini-batch must be one tensor or a dict of tensors, got "
            f"{type(X).__name__}. Return a tensor, or a dict with the arguments of the "
            "module's forward, in the Dataset or in collate_fn."
        )
    return Batch(batch)


def collate(samples: list[Any], rows: Sequence[int] = (0,)) -> Batch:
    """Return the samples of a dataset as a mini-batch of tensors.

    `rows` are their indices in the dataset, for messages.
    """
    samples = [_with_writable_rows(sample) for sample in samples]
    try:
        batch = default_collate(samples)
    except MISFITS as error:
        _refuse_misfit(samples, rows, error)
        raise
    batch = as_batch(batch)
    # torch does not look at the others if the first one is text.
    texts = [n for n in (0, 1) if isinstance(samples[0][n], str)]
    if any(not isinstance(each[n], str) for n in texts for each in samples):
        _refuse_misfit(samples, rows, TypeError("text and numbers"))
    return batch


def _refuse_misfit(samples: list[Any], rows: Sequence[int], error: Exception) -> None:
    """Raise an error that names the first sample that does not fit the others."""
    misfits = [n for n, each in enumerate(samples) if not _fit(samples[0], each)]
    if not misfits:
        return
    # If most samples do not fit the first one, it is the odd one.
    is_first = len(misfits) > len(samples) // 2
    odd, other = (0, misfits[-1]) if is_first else (misfits[0], 0)
    wanted = "be a pair (X, y) of arrays, tensors or numbers"
    if odd != other:
        wanted = f"have the form of item {rows[other]}, {_form(samples[other])}"
    kind = TypeError if isinstance(error, TypeError) else ValueError
    raise kind(
        f"Item {rows[odd]} of the Dataset must {wanted}, got {_form(samples[odd])}. "
        "Return a pair (X, y) with arrays or tensors of one shape, or pad them in "
        "iterator_train__collate_fn and iterator_valid__collate_fn."
    ) from error


def _fit(one: Any, other: Any) -> bool:
    """Return whether torch can make a mini-batch of two samples."""
    try:
        default_collate([one, other])
        default_collate([other, one])
    except MISFITS:
        return False
    return True


def _form(part: Any) -> str:
    """Return the type and the shape of a sample, for messages."""
    if isinstance(part, Mapping):
        items = (f"{shown(name)}: {_form(each)}" for name, each in part.items())
        return shorten(f"{{{', '.join(items)}}}")
    if isinstance(part, tuple | list):
        return shorten(f"({', '.join(map(_form, part))})")
    if isinstance(part, np.ndarray | Tensor):
        return f"{type(part).__name__} of shape {tuple(part.shape)}"
    return type(part).__name__


def _with_writable_rows(part: Any) -> Any:
    """Return a sample, with copies of read-only rows, of which torch would warn."""
    if isinstance(part, Mapping):
        return {name: _with_writable_rows(each) for name, each in part.items()}
    if isinstance(part, tuple | list):
        return [_with_writable_rows(each) for each in part]
    if isinstance(part, np.ndarray):
        return np.require(part, requirements="W")
    return part


class IndexedBatches:
    """Mini-batches of samples with indices, in order or in a random order.

    The order is drawn from torch's global generator. A last batch of one sample is
    merged into the previous one, since batch normalisation cannot train on a single
    sample.
    """

    def __init__(
        self,
        take: Take,
        take_weight: Take | None,
        rows: Array,
        batch_size: int,
        shuffle: bool,
    ) -> None:
        self.take, self.take_weight = take, take_weight
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
            part = self.rows.index_select(0, indices)
            batch = Batch(self.take(part))
            batch.indices = indices
            if self.take_weight is not None:
                batch.sample_weight = self.take_weight(part)
            yield batch


class StreamedBatches:
    """Mini-batches of an `IterableDataset`, in its order.

    As in `IndexedBatches`, a last batch of one sample is merged into the previous one.
    """

    def __init__(self, dataset: IterableDataset[Any], batch_size: int) -> None:
        self.dataset, self.batch_size = dataset, batch_size

    def __iter__(self) -> Iterator[Batch]:
        samples = iter(self.dataset)
        current = list(islice(samples, self.batch_size))
        first = 0
        while current:
            following = list(islice(samples, self.batch_size))
            if len(following) == 1 < self.batch_size:
                current += following
                following = []
            yield collate(current, range(first, first + len(current)))
            first += len(current)
            current = following


@validate_params({"batch_size": COUNT, "shuffle": ["boolean"]})
def iterate_batches(
    dataset: Dataset[Any], batch_size: int = 1, shuffle: bool = False, **kwargs: Any
) -> Iterable[Any]:
    """Return the mini-batches of a dataset, sliced from its arrays if it holds arrays.

    This function is the default of `iterator_train` and `iterator_valid` of
    `NeuralClassifier`. Arrays are indexed one batch at a time, which is several times
    as fast as a `DataLoader` that fetches and collates individual samples. Memory maps
    are read one batch at a time, and sparse matrices in CSR format are converted to
    dense tensors one batch at a time. If X is a dict, so is the X of each batch.

    The samples of other datasets are collated as in a `DataLoader`, which is returned
    only if `kwargs` are given.

    Parameters
    ----------
    dataset : skorch.dataset.Dataset or torch.utils.data.Dataset
        The samples, or a `torch.utils.data.Subset` of them.

    batch_size : int, default=1
        Number of samples in a mini-batch.

    shuffle : bool, default=False
        Draw a new order in each pass, from torch's global generator. An
        `IterableDataset` determines its order, so it is never shuffled.

    **kwargs : dict
        Options of `torch.utils.data.DataLoader`. A `batch_sampler` replaces
        `batch_size`.

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
    if kwargs:
        return _data_loader(dataset, batch_size, shuffle, kwargs)
    if isinstance(dataset, IterableDataset):
        return StreamedBatches(dataset, batch_size)
    source, rows = resolve_subset(dataset)
    sample_weight = getattr(source, "sample_weight", None)
    take_weight = None if sample_weight is None else _row_taker(sample_weight)
    return IndexedBatches(_sample_taker(source), take_weight, rows, batch_size, shuffle)


def _data_loader(
    dataset: Any, batch_size: int, shuffle: bool, options: dict[str, Any]
) -> DataLoader[Any]:
    """Return a DataLoader; raise ValueError if the samples have weights."""
    if getattr(resolve_dataset(dataset), "sample_weight", None) is not None:
        raise ValueError(
            "sample_weight cannot be used if a DataLoader forms the batches, got the "
            f"DataLoader options {sorted(options)}. Omit these options, or fit without "
            "sample_weight."
        )
    shuffle = shuffle and not isinstance(dataset, IterableDataset)
    if options.get("batch_sampler") is not None:
        return DataLoader(dataset, shuffle=shuffle, **options)
    return DataLoader(dataset, batch_size=batch_size, shuffle=shuffle, **options)


def have_one_shape(batches: Any) -> bool:
    """Return whether all samples have one shape, since they are stacked unchanged."""
    is_ours = isinstance(batches, IndexedBatches | StreamedBatches)
    return is_ours or getattr(batches, "collate_fn", None) is default_collate


def check_batch_order(batches: Any, *, predicts: bool) -> None:
    """Raise ValueError for mini-batches that are not those of a dataset in its order.

    Of functions that do not return a `DataLoader`, only ours are recognised. Unless
    the net `predicts`, the workers of a stream may take turns, as labels come with X.
    """
    is_wrong = getattr(batches, "shuffle", False)
    if isinstance(batches, DataLoader):
        is_stream = isinstance(batches.dataset, IterableDataset)
        is_wrong = (
            batches.drop_last
            or not getattr(batches, "in_order", True)  # since torch 2.6
            or not (is_stream or isinstance(batches.sampler, SequentialSampler))
            or type(batches.batch_sampler) not in (BatchSampler, type(None))
            or (is_stream and predicts and batches.num_workers > 1)
        )
    if is_wrong:
        raise ValueError(
            "iterator_valid must return all samples once, in their order, got batches "
            "that reorder, repeat or leave out samples. Remove options such as "
            "shuffle, drop_last and sampler, which are for iterator_train, and read an "
            "IterableDataset with at most one worker."
        )


def check_sampler(batches: Any) -> None:
    """Raise ValueError for a random sampler of other than the samples of a dataset."""
    if not isinstance(batches, DataLoader):
        return
    dataset: Any = batches.dataset
    for sampler in (batches.sampler, getattr(batches.batch_sampler, "sampler", None)):
        if isinstance(sampler, WeightedRandomSampler):
            n_given = len(sampler.weights)
        elif isinstance(sampler, RandomSampler):
            n_given = len(sampler.data_source)
        else:
            continue
        if n_given != len(dataset):
            raise ValueError(
                f"The sampler of iterator_train must draw from {len(dataset)} "
                "samples, the training data without the validation set, got a sampler "
                f"for {n_given}. Use class_weight, or pass the validation set as "
                "train_split=predefined_split(...)."
            )


def resolve_dataset(dataset: Any) -> Any:
    """Return the dataset beneath nested subsets."""
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
    return dataset


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


def _sample_taker(dataset: Any) -> Take:
    """Return a function that returns the samples of a dataset as a pair (X, y)."""
    if _holds_arrays(dataset):
        take_X = _row_taker(dataset.X)
        take_y = torch.zeros_like if dataset.y is None else _label_taker(dataset.y)
        return lambda rows: (take_X(rows), take_y(rows))

    def take(rows: Tensor) -> Batch:
        # Subset fetches several samples at once from datasets that can.
        samples = Subset(dataset, rows.tolist()).__getitems__([*range(len(rows))])
        return collate(samples, rows.tolist())

    return take


def _holds_arrays(dataset: Any) -> bool:
    """Return whether a dataset is one of skorch whose samples are rows of arrays."""
    return (
        isinstance(dataset, ArrayDataset)
        and type(dataset).__getitem__ is ArrayDataset.__getitem__
        and type(dataset).transform is ArrayDataset.transform
        and _has_rows(dataset.X)
        and isinstance(dataset.y, np.ndarray | None)
    )


def _label_taker(y: Array) -> Take:
    """Return a function that returns labels; strings, which are encoded, as arrays."""
    return _row_taker(y) if y.dtype.kind in "biuf" else lambda rows: y[rows.numpy()]


def _row_taker(X: Any) -> Take:
    """Return a function that returns the rows of X with given indices as tensors."""
    if isinstance(X, Mapping):
        take = {name: _row_taker(part) for name, part in X.items()}
        return lambda rows: {name: take[name](rows) for name in take}
    if issparse(X):
        return lambda rows: torch.from_numpy(X[rows.numpy()].toarray())
    native = X.dtype.newbyteorder("=")

    def take_rows(rows: Tensor) -> Tensor:
        # By numpy, since a tensor of a read-only memory map would be a copy.
        taken = X.take(rows.numpy(), axis=0)
        return torch.from_numpy(taken.astype(native, copy=False))

    return take_rows
