"""Data of `fit`: validated arrays or chunks, and what must be known about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_consistent_length

from sklearn_calib._numerics.sample_blocks import Block, Blocks, array_blocks
from sklearn_calib._validation.arrays import as_numbers, on_cpu
from sklearn_calib._validation.fit_warnings import warn
from sklearn_calib._validation.labels import as_labels, encode_array
from sklearn_calib._validation.probabilities import (
    are_proba,
    check_sample_weight,
    warn_of_predicted_labels,
)
from sklearn_calib._validation.samples import check_columns, check_order
from sklearn_calib._validation.types import Floats, Ints, Weights

# Smaller values are lost by rounding when they are added to a probability of one.
RESOLUTION = float(np.finfo(np.float64).eps)


def read_fit_data(
    calibrator: Any,
    X: ArrayLike | None,
    y: ArrayLike | None,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
    batches: Any,
) -> tuple[Blocks, float]:
    """Return the logits of validated samples, and the number of errors that count.

    It sets what all calibrators have: `classes_`, `n_features_in_`, `n_errors_` and
    `zero_replacement_`.
    """
    if batches is None:
        X, codes, weight = _check_arrays(calibrator, X, y, sample_weight, labels)
        data = array_blocks(X, codes, weight)
        summary = set_summary(calibrator, data)
    else:
        _check_no_arrays(X, y, sample_weight)
        chunks = Chunks(calibrator, batches, labels)
        calibrator.classes_ = as_labels(labels, "labels")
        summary = set_summary(calibrator, chunks)
        if summary.looks_like_proba and not chunks.are_labels:
            warn_that_logits_look_like_proba()
        data = Blocks(chunks.__iter__, chunks.sizes, chunks.counts)
    return logits_of(calibrator, data), summary.n_errors_counted


def set_summary(calibrator: Any, data: Iterable[Block]) -> InputSummary:
    """Set the attributes that follow from one pass over validated input; return it."""
    summary = InputSummary(calibrator, data)
    calibrator.n_errors_ = summary.n_errors
    if not calibrator.from_logits:
        calibrator.zero_replacement_ = summary.zero_replacement
    return summary


def logits_of(calibrator: Any, data: Blocks) -> Blocks:
    """Return the logits of validated input."""
    if not calibrator.from_logits:
        data = data.transform(calibrator._as_logits, is_elementwise=True)
    return data.kept()


def _check_arrays(
    calibrator: Any, X: Any, y: Any, sample_weight: Any, labels: Any
) -> tuple[Floats, Ints, Weights]:
    """Return validated input, codes and weights, after setting `classes_`."""
    if X is None:
        raise TypeError("X and y must be passed to fit, got None. Or pass batches.")
    y = as_labels(y, "y")
    check_order(X, y, "X", "y")
    given, X = X, calibrator._check_input(X, reset=True)
    check_consistent_length(X, y)
    codes = encode_array(y, labels, X.shape[1], "y")
    weight = check_sample_weight(sample_weight, X)
    classes = np.unique(y) if labels is None else as_labels(labels, "labels")
    check_columns(given, y, classes, "X")
    calibrator.classes_ = classes
    return X, codes, weight


def _check_no_arrays(*arrays: Any) -> None:
    """Raise TypeError if arrays are passed with batches."""
    if any(array is not None for array in arrays):
        raise TypeError(
            "X, y and sample_weight must be None if batches are used, got both. Return "
            "them from batches, in chunks."
        )


class Chunks:
    """Chunks that a callable returns, as validated blocks of rows.

    Attributes
    ----------
    sizes, counts : ndarray of shape (n_classes,)
        Number of samples and sum of weights of each class, after the first iteration.

    are_labels : bool
        Whether the first chunk contains predicted labels, of which it has warned.
    """

    sizes: Ints
    counts: Floats
    are_labels: bool

    def __init__(self, calibrator: Any, batches: Any, labels: ArrayLike | None) -> None:
        if not callable(batches):
            raise TypeError(
                "batches must be a callable that returns an iterable of (X, y) or (X, "
                f"y, sample_weight), got {type(batches).__name__}. Pass a function "
                "that opens the data, such as lambda: iter(chunks)."
            )
        if labels is None:
            raise ValueError(
                "labels must contain the label of each column if batches are used, got "
                "None. Pass labels=estimator.classes_."
            )
        self._calibrator, self._batches, self._labels = calibrator, batches, labels
        self._first_pass: dict[int, tuple[list[int], Floats]] = {}
        self._has_totals = False

    def __iter__(self) -> Iterator[Block]:
        sizes: Any = 0
        counts: Any = 0.0
        is_first = not self._has_totals
        for number, chunk in enumerate(self._read()):
            try:
                data = self.check(chunk, reset=is_first and np.ndim(sizes) == 0)
            except (TypeError, ValueError) as error:
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"Chunk {number} of batches: {error}") from error
            if data is not None:
                self._check_same(number, *data)
                X, codes, weight = data
                blocks = array_blocks(X, codes, weight)
                sizes, counts = sizes + blocks.sizes, counts + blocks.counts
                yield from blocks
        if is_first:
            self._set_totals(sizes, counts)
        elif np.sum(sizes) < self.sizes.sum():
            _refuse_change(f"{np.sum(sizes)} samples after {self.sizes.sum()}")

    def _check_same(self, number: int, X: Floats, codes: Ints, weight: Weights) -> None:
        """Raise ValueError if a chunk differs from that of the first pass.

        Chunks of equal labels are told apart by their first row. It is not compared
        exactly, as a GPU may not compute the same logits twice.
        """
        arrays = [codes] if weight is None else [codes, weight]
        traits = [len(X), *(crc32(array.tobytes()) for array in arrays)]
        if not self._has_totals:
            self._first_pass[number] = traits, X[0].copy()
            return
        before, row = self._first_pass.get(number, ([0], X[0]))
        if len(X) != before[0]:
            _refuse_change(f"{len(X)} samples in chunk {number} after {before[0]}")
        if traits != before or not np.allclose(X[0], row, rtol=0.01, atol=0.01):
            _refuse_change(f"other rows in chunk {number} than in the first pass")

    def _read(self) -> Iterable[Any]:
        """Return the iterable of the callable."""
        chunks = self._batches()
        if not isinstance(chunks, Iterable):
            raise TypeError(
                "batches must return an iterable of (X, y) or (X, y, sample_weight), "
                f"got {type(chunks).__name__}. Return a generator or a list."
            )
        return chunks

    def _set_totals(self, sizes: Any, counts: Any) -> None:
        """Store the totals of the first iteration."""
        if np.sum(sizes) == 0:
            _refuse("batches must return at least one sample", "none", "Check the data")
        if np.sum(counts) == 0:
            way_out = "Use a weight of zero only to ignore a sample"
            _refuse("sample_weight must not be zero in all chunks", "zeros", way_out)
        self.sizes, self.counts, self._has_totals = sizes, counts, True

    def check(self, chunk: Any, *, reset: bool) -> Any:
        """Return validated input, codes and weights; None if there are no rows."""
        if not isinstance(chunk, tuple | list) or len(chunk) not in {2, 3}:
            shown = type(chunk).__name__
            if isinstance(chunk, tuple | list):
                shown += f" of length {len(chunk)}"
            raise TypeError(
                f"it must be (X, y) or (X, y, sample_weight), got {shown}. Return "
                "tuples."
            )
        X, y, *weight = map(on_cpu, chunk)
        y = as_labels(y, "y")
        check_order(X, y, "X", "y")
        check_consistent_length(X, y, *weight)
        if len(y) == 0:
            return None
        given, X = X, self._calibrator._check_input(X, reset=reset)
        codes = encode_array(y, self._labels, X.shape[1], "y")
        check_columns(given, y, self._labels, "X")
        if reset:  # one chunk tells what all of them contain
            self.are_labels = warn_of_predicted_labels(given, "X")
        return X, codes, check_chunk_weight(weight[0], X) if weight else None


def check_chunk_weight(weight: Any, X: Floats) -> Weights:
    """Return the weights of a chunk, which may all be zero."""
    if weight is None:
        return None
    weight = as_numbers(weight, "sample_weight")
    if weight.shape == (len(X),) and (weight == 0).all():
        return np.zeros(len(X))
    return check_sample_weight(weight, X)


def _refuse_change(found: str) -> NoReturn:
    _refuse(
        "batches must return the same chunks, of the same rows in the same order, each "
        "time it is called",
        found,
        "Return a new iterator in each call, and do not shuffle or draw samples",
    )


def _refuse(rule: str, found: str, way_out: str) -> NoReturn:
    raise ValueError(f"{rule}, got {found}. {way_out}.")


class InputSummary:
    """Errors, zeros and form of the samples, from one pass over validated blocks.

    Attributes
    ----------
    n_errors : float
        Sum of the weights of misclassified samples.

    n_rows : ndarray of shape (2,)
        Numbers of samples with positive weight, and of those that are misclassified.

    zero_replacement : float
        Value that replaces zeros, see :class:`Calibrator`.

    has_zeros : bool
        Whether there are probabilities of zero.

    looks_like_proba : bool
        Whether logits look like probabilities.
    """

    def __init__(self, calibrator: Any, data: Iterable[Block]) -> None:
        self.n_errors, self.looks_like_proba = 0.0, calibrator.from_logits
        self.n_rows, self._weight_sum = np.zeros(2), 0.0
        self.has_zeros, self._smallest = False, np.inf
        for X, codes, weight in data:
            if calibrator.from_logits:
                _check_range(X)
                # If a single column was passed, it is the last of two here.
                columns = X[:, -calibrator.n_features_in_ :]
                self.looks_like_proba = self.looks_like_proba and are_proba(columns)
            else:
                self._find_smallest(X if weight.min() > 0 else X[weight > 0])
            is_wrong = X.argmax(axis=1) != codes
            self.n_errors += float(weight @ is_wrong)
            self._weight_sum += float(weight.sum())
            has_weight = weight > 0
            self.n_rows += has_weight.sum(), (has_weight & is_wrong).sum()
            self._n_classes = X.shape[1]

    def _find_smallest(self, proba: Floats) -> None:
        """Update the smallest positive probability, and whether there are zeros."""
        smallest = proba.min(initial=np.inf)
        if smallest == 0:
            self.has_zeros = True
            smallest = proba[proba > 0].min()
        self._smallest = min(self._smallest, float(smallest))

    @property
    def n_errors_counted(self) -> float:
        return count_errors(self.n_errors, self._weight_sum, self.n_rows)

    @property
    def zero_replacement(self) -> float:
        if not self.has_zeros:
            return RESOLUTION
        # Below 1 / n_classes, so that a zero does not become the largest of its row.
        return max(min(self._smallest, 1 / self._n_classes) / 2, RESOLUTION)


def count_errors(n_errors: float, weight_sum: float, n_rows: Floats) -> float:
    """Return the misclassified samples that count, of whatever scale the weights are.

    Small weights are scaled to a mean of one, and no sample counts more than once.
    """
    n_samples, n_wrong = n_rows.tolist()
    if weight_sum < n_samples:
        # Rounded, since ten samples of weight 0.1 are to be ten samples.
        n_errors = round(n_errors / weight_sum * n_samples, 6)
    return min(n_errors, n_wrong)


def _check_range(logits: Floats) -> None:
    """Raise ValueError for logits whose differences or row sums would overflow."""
    limit = np.finfo(logits.dtype).max / (4 * logits.shape[1])
    largest = max(logits.max(), -logits.min())
    if largest > limit:
        raise ValueError(
            f"X must contain logits of at most {limit:.2g} in absolute value, got "
            f"{largest:.3g}. Divide all logits by the same number."
        )


def warn_that_logits_look_like_proba() -> None:
    warn(
        "X should contain logits, since from_logits=True, got values that look like "
        "probabilities. Pass logits, such as those of decision_function, or fit with "
        "from_logits=False.",
        UserWarning,
    )
