"""Logits, classes and weights of samples, in blocks of rows that can be read again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from sklearn_calib._validation.arrays import read_only, row_blocks
from sklearn_calib._validation.types import Array, Bools, Floats, Ints, Weights

# Arrays with up to this number of elements in total are computed once and kept: 64 MiB
# of doubles. Larger ones are computed again in each pass, in blocks.
KEPT_SIZE = 2**23

Item = TypeVar("Item")


class Block(NamedTuple):
    """Some samples: logits (or features of them), true classes and weights.

    `codes` contains column indices, or probabilities of all columns as soft targets.
    """

    logits: Floats
    codes: Array
    weight: Floats


class Restartable(Generic[Item]):
    """Items that are computed in each iteration, by a function that yields them."""

    def __init__(self, read: Callable[[], Iterator[Item]]) -> None:
        self._read = read

    def __iter__(self) -> Iterator[Item]:
        return self._read()


class Blocks(Restartable[Block]):
    """Blocks of samples. Each iteration starts at the first block.

    Parameters
    ----------
    read : callable
        Function that returns a new iterator over the blocks.

    sizes : ndarray of shape (n_classes,)
        Number of samples of each class.

    counts : ndarray of shape (n_classes,)
        Sum of the weights of each class.

    prepare : callable, default=None
        Elementwise function of the logits that `read` yields. It is computed when they
        are read, and for single classes only of their columns.

    Attributes
    ----------
    given : Blocks
        The same samples before elementwise functions. It is made when it is asked for,
        as blocks that refer to themselves would outlive the fit, with their samples.
    """

    def __init__(
        self,
        read: Callable[[], Iterator[Block]],
        sizes: Ints,
        counts: Floats,
        prepare: Callable[[Floats], Floats] | None = None,
    ) -> None:
        super().__init__(read)
        self.sizes, self.counts, self._prepare = sizes, counts, prepare
        self._read_given = read

    @property
    def given(self) -> Blocks:
        return Blocks(self._read_given, self.sizes, self.counts)

    def __iter__(self) -> Iterator[Block]:
        prepare = self._prepare
        for block in self._read():
            if prepare is not None:
                block = block._replace(logits=prepare(block.logits))
            yield block

    @cached_property
    def n_samples(self) -> int:
        return int(self.sizes.sum())

    @cached_property
    def weight_sum(self) -> float:
        return float(self.counts.sum())

    def map(self, function: Callable[[Block], Block]) -> Blocks:
        """Return blocks that are computed from these whenever they are read."""
        return Blocks(lambda: map(function, self), self.sizes, self.counts)

    def transform(
        self, function: Callable[[Floats], Floats], *, is_elementwise: bool = False
    ) -> Blocks:
        """Return the same samples with a function of their logits.

        If it is elementwise, `columns` computes it for the columns only.
        """
        if is_elementwise:
            return Blocks(self.__iter__, self.sizes, self.counts, function)
        return self.map(lambda block: block._replace(logits=function(block.logits)))

    def columns(self, classes: slice) -> Iterator[Floats]:
        """Yield the logits of consecutive classes in each block, in Fortran order."""
        for logits, *_ in self._read():
            columns = np.asfortranarray(logits[:, classes])
            yield columns if self._prepare is None else self._prepare(columns)

    def normalised(self) -> Blocks:
        """Return the same samples with weights that sum to one."""
        total = self.weight_sum
        return self.map(lambda block: block._replace(weight=block.weight / total))

    def reweighted(self, codes: Ints, weight: Floats) -> Blocks:
        """Return the same samples, of true classes `codes`, with other weights."""

        def read() -> Iterator[Block]:
            stop = 0
            for block in self._read():
                start, stop = stop, stop + len(block.weight)
                yield block._replace(weight=weight[start:stop])

        counts = np.bincount(codes, weight, len(self.sizes)).astype(np.float64)
        return Blocks(read, self.sizes, counts, self._prepare)

    def select(self, is_selected: Bools) -> Blocks:
        """Return the samples for which a mask of all samples is True."""

        def read() -> Iterator[Block]:
            stop = 0
            for block in self._read():
                start, stop = stop, stop + len(block.weight)
                rows = is_selected[start:stop]
                if rows.any():
                    yield Block(*(values[rows] for values in block))

        sizes, counts = np.zeros_like(self.sizes), np.zeros_like(self.counts)
        for _, codes, weight in Restartable(read):
            sizes += np.bincount(codes, minlength=len(sizes))
            counts += np.bincount(codes, weight, len(counts))
        return Blocks(read, sizes, counts, self._prepare).kept()

    def joined(self, n_rows: int) -> Blocks:
        """Return the same samples in blocks of at least `n_rows` rows, but the last."""

        def read() -> Iterator[Block]:
            waiting: list[Block] = []
            for block in self:
                waiting.append(block)
                if sum(len(each.weight) for each in waiting) >= n_rows:
                    yield _concatenate(waiting)
                    waiting = []
            if waiting:
                yield _concatenate(waiting)

        return Blocks(read, self.sizes, self.counts)

    def collect(self, function: Callable[[Block], Iterable[Array]]) -> list[Array]:
        """Return arrays of shape (n_samples,) that are computed in one pass.

        They must not be views of the logits, which would be kept.
        """
        return [np.concatenate(x) for x in zip(*map(function, self), strict=True)]

    def arrays(self) -> Block:
        """Return all samples in memory, as one block."""
        return _concatenate(list(self))

    def kept(self) -> Blocks:
        """Return blocks that are not computed again, if they need little memory."""
        if not self.are_small:
            return self
        kept = Blocks(list(self).__iter__, self.sizes, self.counts)
        if self._prepare is not None:
            kept._read_given = self._read_given
        return kept

    @property
    def are_small(self) -> bool:
        """Whether arrays with a number for each sample and class may be kept."""
        return self.n_samples * len(self.sizes) <= KEPT_SIZE


def array_blocks(logits: Floats, codes: Ints, sample_weight: Weights = None) -> Blocks:
    """Return the blocks of arrays, which are not copied and cannot be changed."""
    logits, codes = read_only(logits), read_only(codes)
    if sample_weight is not None:
        sample_weight = read_only(sample_weight)

    def read() -> Iterator[Block]:
        for rows in row_blocks(len(logits), n_classes):
            few = codes[rows]
            weight = np.ones(len(few)) if sample_weight is None else sample_weight[rows]
            yield Block(logits[rows], few, weight)

    n_classes = logits.shape[1]
    sizes = np.bincount(codes, minlength=n_classes)
    counts = np.bincount(codes, sample_weight, n_classes).astype(np.float64)
    return Blocks(read, sizes, counts)


def joined(parts: Sequence[Blocks]) -> Blocks:
    """Return the samples of all parts."""
    sizes = np.sum([part.sizes for part in parts], axis=0)
    counts = np.sum([part.counts for part in parts], axis=0)
    return Blocks(lambda: chain.from_iterable(parts), sizes, counts)


def _concatenate(blocks: list[Block]) -> Block:
    return Block(*map(np.concatenate, zip(*blocks, strict=True)))


def as_float64(logits: Floats) -> Floats:
    return logits.astype(np.float64, copy=False)
