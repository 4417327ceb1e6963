"""Validation of labels and probabilities, and selection of the evaluated ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Number, Real
from typing import Any, TypeAlias

import numpy as np

from sklearn_calib._validation.arrays import (
    FEW_COLUMNS,
    MOST_VALUES,
    as_array,
    as_numbers,
    as_real,
    check_in_memory,
    column_names,
    get_namespace,
    has_dask_arrays,
    is_array_api,
    on_cpu,
    row_blocks,
    shown,
)
from sklearn_calib._validation.dask_arrays import labels_of_blocks, lazy_columns
from sklearn_calib._validation.declarations import StrOptions
from sklearn_calib._validation.fit_warnings import warn
from sklearn_calib._validation.labels import (
    as_labels,
    as_list,
    check_indicator,
    check_label_columns,
    code_of_label,
    column_classes,
    columns_by_label,
    encode_array,
    encode_labels,
    is_multilabel,
    one_column,
)
from sklearn_calib._validation.probabilities import (
    as_proba_array,
    check_place,
    check_proba,
    check_proba_on_device,
    check_sample_weight,
    check_sums,
    proba_blocks,
    warn_of_predicted_labels,
)
from sklearn_calib._validation.types import Array, Bools, Floats, Ints, Weights

TESTED = StrOptions({"canonical", "top_label"})

# Evaluated probabilities, the outcomes that they predict, and weights.
Column: TypeAlias = tuple[Floats, Bools, Weights]


def check_order(
    values: Any, y_true: Any, name: str = "y_proba", y_name: str = "y_true"
) -> None:
    """Raise ValueError for predictions and labels in place of each other."""
    y_true = as_array(y_true, y_name)
    if not _has_fractions(y_true):
        return
    values = as_array(values, name)
    is_column = values.shape[1:] in ((), (1,))
    # Floats without fractions may be probabilities, and fractions may be labels.
    is_clear = values.dtype.kind != "f" or y_true.shape[1:] not in ((), (1,))
    if is_column and is_clear and not _has_fractions(values):
        raise ValueError(
            f"{y_name} must contain labels and {name} the predictions, got numbers of "
            f"shape {y_true.shape} as {y_name} and labels as {name}. The two seem to "
            "be swapped: pass them in the other order."
        )


def _has_fractions(array: Array) -> bool:
    """Whether there are floats that are not integers."""
    return array.dtype.kind == "f" and bool((np.floor(array) < array).any())


def check_columns(values: Any, y_true: Any, labels: Any, name: str = "y_proba") -> None:
    """Raise ValueError for a frame whose columns are named by the classes in disorder.

    Names of other things and a single column pass, and so do default names, which are
    positions, unless they are the labels of all classes in another order.

    Parameters
    ----------
    values : array-like
        Probabilities or logits as they were passed.

    y_true : array-like
        True labels. The columns of an indicator matrix may have names, too.

    labels : array-like of shape (n_classes,) or None
        Class label of each column. By default, the sorted distinct values of `y_true`.

    name : str, default="y_proba"
        Name of the argument in messages.
    """
    names = column_names(values)
    if len(names) < 2:
        return
    if labels is None and is_multilabel(y_true):
        classes = column_names(y_true)
    else:
        classes = column_classes(y_true, labels).ravel().tolist()
    if len(classes) != len(names):  # other checks refuse it
        return
    code_of, is_default = _codes_by_name(classes), _are_default(names)
    # The number 1 among default names is a position, and not the label "1".
    texts = names if is_default else map(str, names)
    pairs = zip(names, texts, strict=True)
    codes = [code_of.get(each, code_of.get(text, -1)) for each, text in pairs]
    if codes == [*range(len(names))] or {*codes} == {-1}:
        return
    if {*codes} == {*range(len(names))}:
        way_out = "Reorder them"
        if is_default:
            way_out = (
                f"Pass {name}.to_numpy() if they already are in that order, and named "
                "by position. Otherwise, reorder them"
            )
        raise ValueError(
            f"{name} must have its columns in the order of the labels, "
            f"{shown(classes)}, got {shown(names)}. {way_out}: {name} = {name}"
            f"{_selection(names, np.argsort(codes).tolist(), classes)}."
        )
    if is_default:
        return
    raise ValueError(
        f"{name} must have columns that are named by the labels, {shown(classes)}, or "
        f"by none of them, got {shown(names)}. Rename the columns, or pass "
        f"{name}.to_numpy() if they are in the order of the labels."
    )


def _selection(names: list[Any], order: list[int], classes: list[Any]) -> str:
    """Return the code that selects columns in an order, without long lists."""
    if len(order) > MOST_VALUES:
        if {*classes} == {*names}:
            return "[[*labels]]"
        return f"[[*map({type(names[0]).__name__}, labels)]]"
    if any(isinstance(each, bool) for each in names):  # they would select rows
        return f".iloc[:, {order}]"
    return f"[{[names[place] for place in order]}]"


def _are_default(names: list[Any]) -> bool:
    """Whether columns have the names of an array that was made a frame."""
    text, numbers = [*map(str, names)], [*map(str, range(len(names)))]
    return text in (numbers, [f"column_{number}" for number in numbers])


def _codes_by_name(classes: list[Any]) -> dict[Any, int]:
    """Return the code of each class by its label and by the label as text."""
    codes: dict[Any, int] = {}
    for code, label in enumerate(classes):
        # True, 1 and 1.0 are equal, and all of them may be "1" in the name of a column.
        is_whole = isinstance(label, Real) and label == label // 1
        texts = {str(label), str(int(label))} if is_whole else {str(label)}
        codes |= dict.fromkeys({label, *texts}, code)
    return codes


def check_lengths(n_labels: int, n_rows: int, name: str = "y_proba") -> None:
    """Raise ValueError unless labels and predictions have the same length."""
    if n_labels != n_rows:
        raise ValueError(
            f"y_true must contain one label for each row of {name}, got {n_labels} "
            f"labels and {n_rows} rows. Pass both for the same samples."
        )


def read_labels(
    y_true: Any,
    y_proba: Any,
    labels: Any = None,
    sample_weight: Any = None,
    *,
    name: str = "y_proba",
    y_name: str = "y_true",
    allow_nan: bool = False,
) -> tuple[list[Any], Array, Floats, Weights]:
    """Return names, indicators and probabilities of several labels, and the weights.

    Labels without a name are numbered. `y_proba` may be a list, see `join_labels`.
    """
    y_proba = join_labels(y_proba)
    check_columns(y_proba, y_true, labels, name)
    names = column_names(y_true) or column_names(y_proba)
    proba = as_numbers(y_proba, name)
    check_label_columns(proba, name=name)
    if labels is not None:
        names = [*columns_by_label(labels, proba.shape[1])]
    y_true = check_indicator(y_true, proba.shape, name=y_name, allow_nan=allow_nan)
    if warn_of_predicted_labels(proba.ravel(), name, "predict_proba(X)"):
        proba = proba.astype(np.float64)
    flat = as_proba_array(proba.ravel(), name=name, allow_1d=True)
    weight = check_sample_weight(sample_weight, y_true)
    names = names or [*range(proba.shape[1])]
    return names, y_true, flat.reshape(proba.shape), weight


def join_labels(y_proba: Any) -> Any:
    """Return what multilabel classifiers predict; a list becomes a column per label.

    MultiOutputClassifier and forests return a list with an array (n_samples, 2) for
    each label. A list of anything else is returned as it is.
    """
    is_list = isinstance(y_proba, list) and len(y_proba) > 0
    if not is_list or any(np.shape(pair)[1:] != (2,) for pair in y_proba):
        return y_proba
    pairs = [as_numbers(pair, "y_proba") for pair in y_proba]
    if not all(np.allclose(pair.sum(axis=1), 1) for pair in pairs):
        return y_proba
    return np.column_stack([pair[:, 1] for pair in pairs])


def check_two_classes(n_columns: int) -> None:
    """Raise ValueError for the mode "positive" unless there are two classes."""
    if n_columns != 2:
        raise ValueError(
            f'mode="positive" requires two classes, got {n_columns} columns. Pass one '
            "class, as y_true == label and its column, or evaluate each class with "
            'mode="classwise" or ClasswiseReliabilityDisplay.'
        )


def as_columns(proba: Floats) -> Floats:
    """Return probabilities as a 2-d array; adds the column of the negative class."""
    if proba.ndim == 2:
        return proba
    positive = check_proba(proba, allow_1d=True)
    return np.column_stack([1 - positive, positive])


def read_class_values(
    y_true: Any,
    values: Any,
    labels: Any,
    sample_weight: Any,
    *,
    name: str,
    is_valid: Callable[[Array], Any],
    content: str,
    source: str,
) -> tuple[Array, Ints, Weights]:
    """Return checked values of each class, which are no probabilities, with targets.

    Messages say that the argument `name` must contain `content`, and that the method
    `source` returns it.
    """
    check_place(values, name)
    y_true = as_labels(y_true, "y_true")
    check_order(values, y_true, name)
    checked = as_numbers(values, name)
    is_matrix = checked.ndim == 2 and len(checked) > 0 and checked.shape[1] > 1
    if not is_matrix or not is_valid(checked):
        raise ValueError(
            f"{name} must contain {content} in the shape (n_samples, n_classes), got "
            f"an array of shape {checked.shape} with values from "
            f"{checked.min(initial=1):g} to {checked.max(initial=0):g}. Pass the "
            f"result of {source}."
        )
    codes = encode_array(y_true, labels, checked.shape[1])
    check_lengths(len(codes), len(checked), name)
    check_columns(values, y_true, labels, name)
    return checked, codes, check_sample_weight(sample_weight, checked)


def resolve_mode(
    mode: str | None, proba: Any, of_two: str = "top_label", of_more: str = "top_label"
) -> str:
    """Return the mode; None depends on the number of columns of `proba`."""
    if proba.ndim == 1:
        return mode or "positive"
    return mode or (of_two if proba.shape[1] == 2 else of_more)


def positive_code(pos_label: Any, mode: str | None, classes: Array) -> int:
    """Return the column of the positive class of two."""
    if len(classes) != 2 or mode not in {None, "positive"}:
        raise ValueError(
            "pos_label must be None unless there are two classes and the mode is "
            f'"positive", got {shown(pos_label)} with mode={mode!r} and '
            f'{len(classes)} classes. Use mode="positive" for two classes, and '
            'mode="classwise" or ClasswiseReliabilityDisplay for more.'
        )
    code = code_of_label(pos_label, classes)
    if code is None:
        raise ValueError(
            f"pos_label must be one of {shown(as_list(classes))}, got "
            f"{shown(pos_label)}. Pass the label of the class to evaluate."
        )
    return code


def effective_n_samples(weight: Floats) -> float:
    """Return the effective number of samples, by Kish's formula."""
    return weight.sum() ** 2 / (weight**2).sum()


def effective_weights(weight: Weights, n_samples: int) -> Floats:
    """Return weights scaled to sum to the effective number of samples."""
    if weight is None:
        return np.ones(n_samples)
    # The squares of these neither underflow nor overflow.
    weight = weight / weight.max()
    return weight * effective_n_samples(weight) / weight.sum()


def merge_repetitions(
    proba: Floats, codes: Ints, weight: Weights
) -> tuple[Floats, Ints, Weights]:
    """Merge equal samples into one of their total weight, if fewer than half remain.

    This saves time where all pairs of samples are compared.
    """
    rows = np.column_stack([proba, codes])
    # Rows as single byte strings are faster than np.unique along an axis.
    keys = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.strides[0])))
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    if 2 * len(first) > len(rows):
        return proba, codes, weight
    mass = np.bincount(group.ravel(), weight).astype(np.float64)
    return proba[first], codes[first], mass


def top_label(proba: Floats) -> tuple[Floats, Ints]:
    """Return the largest probability of each row and its column; the first for ties."""
    confidence = np.empty(len(proba), dtype=proba.dtype)
    predicted = np.empty(len(proba), dtype=np.int64)
    for rows in row_blocks(*proba.shape):
        block = proba[rows]
        predicted[rows] = block.argmax(axis=1)
        confidence[rows] = block[np.arange(len(block)), predicted[rows]]
    return confidence, predicted


def top_label_correct(proba: Floats, codes: Ints) -> tuple[Floats, Bools]:
    """Return the confidence of each sample and whether its prediction is correct.

    The values of `proba` are checked in the same pass, and reduced on their device.
    `codes` are column indices, as returned by `encode_labels`. For ties, the first
    column is the predicted class, as in `predict`.
    """
    if not isinstance(proba, np.ndarray):
        xp, _ = get_namespace(proba)
        predicted = on_cpu(xp.argmax(proba, axis=1))
        return on_cpu(xp.max(proba, axis=1)), predicted == codes
    confidence = np.empty(len(proba), dtype=proba.dtype)
    correct = np.empty(len(proba), dtype=bool)
    for rows, block in proba_blocks(proba):
        confidence[rows], correct[rows], _ = block_correct(block, codes[rows])
    return confidence, correct


def block_correct(block: Floats, codes: Ints) -> tuple[Floats, Bools, Floats]:
    """Return confidence, correctness, and the probability of the true class.

    For few columns, this is faster than with argmax.
    """
    p_true = value_of_class(block, codes)
    if block.shape[1] <= FEW_COLUMNS:
        confidence = block.max(axis=1)
        if np.count_nonzero(block == confidence[:, None]) == len(block):
            return confidence, p_true == confidence, p_true
    predicted = block.argmax(axis=1)
    return value_of_class(block, predicted), predicted == codes, p_true


def value_of_class(block: Floats, codes: Ints) -> Floats:
    """Return the value in one column of each row; faster than indexing of two axes."""
    every = np.arange(len(block))
    if block.flags.f_contiguous:
        return block.ravel(order="K").take(codes * len(block) + every)
    return block.ravel().take(every * block.shape[1] + codes)


def in_double(proba: Floats) -> Floats:
    """Return probabilities in double precision, with rows that sum to one."""
    proba = proba.astype(np.float64)
    proba /= proba.sum(axis=1, keepdims=True)
    return proba


@dataclass(frozen=True)
class Samples:
    """Checked samples; the sums of the rows of a numpy matrix are not checked.

    A matrix of another library that has more than two columns stays on its device.
    """

    matrix: Any  # (n_samples, n_classes), or (n_samples,) for the positive class
    codes: Ints
    weight: Weights
    mode: str

    def column(self) -> Column:
        """Return the evaluated probability and outcome of each sample, and the weights.

        In the mode "top_label", these are the confidence and whether the prediction is
        correct; in the mode "positive", the probability of the second of two classes
        and whether the sample is of that class. The values are checked.
        """
        value = self.matrix
        if self.mode == "top_label":
            return *top_label_correct(as_columns(value), self.codes), self.weight
        if value.ndim == 2:
            check_two_classes(value.shape[1])
            check_sums(value)
            value = value[:, 1].copy()
        return value, self.codes == 1, self.weight

    def proba(self) -> tuple[Floats, Ints, Weights]:
        """Return probabilities (n_samples, n_classes), true columns and weights.

        In the mode "top_label", the two columns are those of wrong and of correct
        predictions. The values are checked.
        """
        proba, codes, weight = self.unchecked()
        check_sums(proba)
        return proba, codes, weight

    def unchecked(self) -> tuple[Floats, Ints, Weights]:
        """Return `proba` for functions that check the sums of rows in blocks."""
        proba, codes = self.matrix, self.codes
        if self.mode == "top_label":
            proba, correct, _ = self.column()
            codes = correct.astype(np.int64)
        return on_cpu(as_columns(proba)), codes, self.weight


@dataclass(frozen=True)
class LazySamples:
    """Samples in Dask arrays, of which only sums of blocks are computed."""

    data: tuple[Any, Any, Any, Any]  # labels, probabilities, labels of columns, weights
    mode: str | None
    pos_label: Any
    is_symmetric: bool = False

    def column(self) -> Any:
        """Raise the TypeError of data that must be in memory."""
        y_true, y_proba, _, sample_weight = self.data
        check_place(y_proba, "y_proba")
        check_in_memory(y_true, "y_true")
        check_in_memory(sample_weight, "sample_weight")

    proba = unchecked = column

    def blocks(self) -> tuple[dict[str, Any], Array, str]:
        """Return the arrays to read in blocks by name, the labels and the mode."""
        y_true, given, labels, sample_weight = self.data
        mode, y_proba = self.mode, lazy_columns(given)
        if labels is None:
            labels = labels_of_blocks(y_true)
            n_classes = 2 if y_proba.ndim == 1 else y_proba.shape[1]
            encode_labels(labels, n_classes=n_classes)
            choose_positive(labels, y_proba, None, self.pos_label)
        check_columns(given, None, labels)
        if self.pos_label is not None:
            labels = as_labels(labels, "labels")
            options = y_proba.ndim, self.is_symmetric
            swaps, mode = _positive(self.pos_label, mode, labels, *options)
            if swaps:
                labels = labels[::-1]
                y_proba = y_proba if y_proba.ndim == 1 else y_proba[:, ::-1]
        data = {"y_true": y_true, "y_proba": y_proba, "sample_weight": sample_weight}
        return data, labels, resolve_mode(mode, y_proba)


AnySamples: TypeAlias = Samples | LazySamples


def read_samples(
    y_true: Any,
    y_proba: Any,
    labels: Any,
    sample_weight: Any,
    mode: str | None = None,
    pos_label: Any = None,
    *,
    is_symmetric: bool = False,
    **default: str,
) -> AnySamples:
    """Return the checked samples of a metric from data of any library.

    If the mode is None, it is "positive" for a 1-d array, otherwise `of_two` for two
    columns and `of_more` for more, both by default "top_label".

    With `pos_label`, the mode is "positive". The classes are swapped if it is the label
    of the first, so that the positive class is always the second. A 1-d array contains
    the probabilities of the positive class, in every mode. With two columns and another
    mode, only the label of the second is accepted: LogisticRegressionCV passes it to
    all metrics with `pos_label`. A symmetric metric, which treats all classes alike,
    also accepts that of the first, which does not change anything.
    """
    if has_dask_arrays(y_true, y_proba, sample_weight):
        data = y_true, y_proba, labels, sample_weight
        return LazySamples(data, mode, pos_label, is_symmetric)
    y_true = as_labels(y_true, "y_true")
    check_order(y_proba, y_true)
    proba = _checked_proba(y_proba)
    check_lengths(len(y_true), proba.shape[0])
    n_classes = 2 if proba.ndim == 1 else proba.shape[1]
    codes = encode_array(y_true, labels, n_classes)
    check_columns(y_proba, y_true, labels)
    weight = check_sample_weight(sample_weight, codes)
    if pos_label is None:
        choose_positive(y_true, proba, labels, None)
        return Samples(proba, codes, weight, resolve_mode(mode, proba, **default))
    classes = column_classes(y_true, labels)
    swaps, mode = _positive(pos_label, mode, classes, proba.ndim, is_symmetric)
    if swaps:
        codes = 1 - codes
        proba = proba if proba.ndim == 1 else np.ascontiguousarray(proba[:, ::-1])
    return Samples(proba, codes, weight, mode)


def _checked_proba(proba: Any) -> Any:
    """Return probabilities; a matrix with more than two columns stays on its device.

    There, its row sums are checked too. Otherwise, `proba_blocks` checks them later.
    """
    is_wide = is_array_api(proba) and proba.ndim == 2 and proba.shape[1] > 2
    if not is_wide or proba.shape[0] == 0:
        return as_proba_array(proba, allow_1d=True)
    xp, proba, eps = as_real(proba, "y_proba")
    if proba.dtype not in (xp.float32, xp.float64):
        proba = xp.astype(proba, xp.float64)
    return check_proba_on_device(xp, proba, "y_proba", eps)


def samples_by_class(samples: AnySamples) -> Iterator[Column]:
    """Yield `samples.column()`, for each class in the mode "classwise"."""
    if samples.mode != "classwise":
        yield samples.column()
        return
    proba, codes, weight = samples.proba()
    for code, column in enumerate(proba.T):
        yield np.ascontiguousarray(column), codes == code, weight


def choose_positive(y_true: Any, y_proba: Any, labels: Any, pos_label: Any) -> Any:
    """Return the labels; warn if the class of a 1-d array is only known from its name.

    It is the class of the larger label, which is a convention for numbers and booleans.
    After the warning, all labels are returned, so that functions to which they are
    passed do not warn again.
    """
    is_given = labels is not None or pos_label is not None
    if is_given or np.shape(y_proba)[1:] not in ((), (1,)):
        return labels
    y_true = one_column(as_labels(y_true, "y_true"))
    if y_true.dtype.kind in "biuf":
        return None
    # Faster than the set of all labels.
    others = y_true[y_true != y_true[:1]]
    if not len(others) or (others != others[0]).any() or isinstance(others[0], Number):
        return None
    classes = sorted(as_list(y_true[:1]) + as_list(others[:1]))
    warn(
        "pos_label or labels should be passed with a 1-d y_proba if the labels are not "
        f"numbers, got neither. The class is taken to be {classes[1]!r}. Pass "
        f"pos_label={classes[1]!r} or labels={classes} if it is.",
    )
    return classes


def _positive(
    pos_label: Any, mode: str | None, classes: Array, n_dims: int, is_symmetric: bool
) -> tuple[bool, str]:
    """Return whether the classes must be swapped, and the mode."""
    is_second = len(classes) == 2 and code_of_label(pos_label, classes) == 1
    if is_second and mode is not None:
        return False, mode
    is_any = is_symmetric or n_dims == 1
    is_first = positive_code(pos_label, None if is_any else mode, classes) == 0
    return is_first and not (is_symmetric and n_dims == 2), mode or "positive"
