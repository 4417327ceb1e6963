"""Validation of labels and probabilities that may be on another device."""

from typing import Any

import numpy as np

from sklearn_calib._validation.array_api import as_real, on_cpu
from sklearn_calib._validation.arrays import (
    convert_to_numpy,
    device,
    get_namespace,
    is_array_api,
)
from sklearn_calib._validation.labels import classes_of, encode_labels, one_column
from sklearn_calib._validation.limits import (
    NEGLIGIBLE,
    check_weight_range,
    weight_factor,
)
from sklearn_calib._validation.probabilities import (
    check_proba_on_device,
    check_sample_weight,
    warn_of_predicted_labels,
)
from sklearn_calib._validation.samples import (
    check_evaluated,
    check_lengths,
    check_two_classes,
    confidence_and_correct,
    positive_code,
    resolve_mode,
)
from sklearn_calib._validation.types import Array, Bools, Floats, Weights


def evaluated_samples(
    y_true: Any,
    y_proba: Any,
    labels: Any,
    sample_weight: Any,
    mode: str | None,
    pos_label: Any = None,
    of_two: str = "top_label",
) -> tuple[Floats, Bools, Weights]:
    """Return the evaluated probabilities, their correctness and the weights as numpy.

    Of arrays on other devices, only these are copied. `of_two` is the mode of two
    columns if it is None.
    """
    if is_array_api(y_proba):
        y_proba, labels, mode = positive_last(y_true, y_proba, labels, mode, pos_label)
        mode = resolve_mode(mode, y_proba, of_two)
        return evaluated_on_device(y_true, y_proba, labels, sample_weight, mode)
    proba, codes, weight, mode = check_evaluated(
        y_true, y_proba, labels, sample_weight, mode, pos_label, of_two=of_two
    )
    return *confidence_and_correct(proba, codes, mode), weight


def positive_last(
    y_true: Any, y_proba: Any, labels: Any, mode: str | None, pos_label: Any
) -> tuple[Any, Any, str | None]:
    """Return probabilities, labels and mode, with the positive class as the second."""
    y_proba = flat(y_proba)
    if pos_label is None:
        return y_proba, labels, mode
    if labels is None and is_array_api(y_true):
        labels = get_namespace(y_true)[0].unique_values(y_true)
    if is_array_api(labels):
        labels = convert_to_numpy(labels, get_namespace(labels)[0])
    classes = classes_of(y_true, labels)
    if positive_code(pos_label, mode, classes) == 0:
        classes = classes[::-1].copy()
        if y_proba.ndim == 2:
            y_proba = get_namespace(y_proba)[0].flip(y_proba, axis=1)
    return y_proba, classes, "positive"


def evaluated_on_device(
    y_true: Any, y_proba: Any, labels: Any, sample_weight: Any, mode: str
) -> tuple[Floats, Bools, Weights]:
    """Return the same for arrays on another device, whose classes stay there."""
    data = check_targets_on_device(y_true, flat(y_proba), labels, sample_weight)
    xp, weight = data[0], data[-1]
    value, correct = evaluated(*data[:-1], mode)
    return (
        convert_to_numpy(value[:, 0], xp),
        convert_to_numpy(correct[:, 0], xp),
        None if weight is None else convert_to_numpy(weight, xp),
    )


def flat(y_proba: Any) -> Any:
    """Return a single column as a 1-d array."""
    is_column = y_proba.ndim == 2 and y_proba.shape[1] == 1
    return y_proba[:, 0] if is_column else y_proba


def check_targets_on_device(
    y_true: Any, y_proba: Any, labels: Any, sample_weight: Any
) -> tuple[Any, Any, Any, Any, Any]:
    """Return the namespace, and the checked data on the device of `y_proba`.

    These are the probabilities of all classes, the true labels, the labels of the
    columns, and the weights or None.
    """
    xp, _ = get_namespace(y_proba)
    proba = _check_proba(y_proba)
    weight = _check_weight(xp, sample_weight, proba)
    y_true, labels = _check_labels(xp, y_true, labels, proba)
    return xp, proba, y_true, labels, weight


def _check_proba(proba: Any) -> Any:
    """Return checked probabilities with at least two columns."""
    xp, proba, eps = as_real(proba, "y_proba")
    if eps == 0:  # integers
        warn_of_predicted_labels(on_cpu(proba), "y_proba")
    if proba.dtype not in (xp.float32, xp.float64):
        proba = xp.astype(proba, xp.float64)
    if proba.ndim not in (1, 2) or 0 in proba.shape:
        raise ValueError(
            "y_proba must be probabilities of shape (n_samples, n_classes) or "
            f"(n_samples,), got shape {tuple(proba.shape)}. Pass the output of "
            "predict_proba."
        )
    proba = check_proba_on_device(xp, proba, "y_proba", eps)
    return proba if proba.ndim == 2 else xp.stack([1 - proba, proba], axis=1)


def _check_weight(xp: Any, sample_weight: Any, proba: Any) -> Any:
    """Return the weights as float64 on the device of the probabilities, or None."""
    if sample_weight is None:
        return None
    if not is_array_api(sample_weight):
        rows = np.empty(proba.shape[0])
        sample_weight = _writable(check_sample_weight(sample_weight, rows))
    _, sample_weight, _ = as_real(sample_weight, "sample_weight")
    weight = xp.asarray(sample_weight, dtype=xp.float64, device=device(proba))
    if weight.shape != proba.shape[:1]:
        raise ValueError(
            f"sample_weight must have shape {tuple(proba.shape[:1])}, got shape "
            f"{tuple(weight.shape)}. Pass one weight for each row of y_proba."
        )
    low, high = float(xp.min(weight)), float(xp.max(weight))
    check_weight_range(low, high)
    factor, least = weight_factor(high), high * NEGLIGIBLE
    if low < least:
        weight = xp.where(weight < least, xp.zeros_like(weight), weight)
    return weight if factor == 1 else weight * factor


def _check_labels(xp: Any, y_true: Any, labels: Any, proba: Any) -> tuple[Any, Any]:
    """Return the true labels and the column labels on the device of `proba`."""
    n_samples, n_classes = proba.shape
    n_labels = y_true.shape[0] if hasattr(y_true, "shape") else len(y_true)
    check_lengths(n_labels, n_samples)
    if labels is not None and is_array_api(labels):
        labels = convert_to_numpy(labels, get_namespace(labels)[0])
    if not is_array_api(y_true):
        codes = encode_labels(y_true, labels=labels, n_classes=n_classes)
        y_true, labels = _writable(codes), np.arange(n_classes)
    else:
        y_true = one_column(y_true)
        present = convert_to_numpy(xp.unique_values(y_true), xp)
        encode_labels(present, labels=labels, n_classes=n_classes)
        labels = present if labels is None else np.asarray(labels)
    where = {"device": device(proba)}
    return xp.asarray(y_true, **where), xp.asarray(labels, **where)


def _writable(array: Any) -> Array:
    """Return a writable numpy array, which torch converts without a warning."""
    return np.require(array, requirements="W")


def evaluated(
    xp: Any, proba: Any, y_true: Any, labels: Any, mode: str
) -> tuple[Any, Any]:
    """Return probabilities and correctness of their class, (n_samples, n_rows)."""
    if mode == "classwise":
        return proba, y_true[:, None] == labels[None, :]
    if mode == "top_label":
        column = xp.argmax(proba, axis=1)
        correct = xp.take(labels, column) == y_true
        return xp.max(proba, axis=1)[:, None], correct[:, None]
    check_two_classes(proba.shape[1])
    return proba[:, 1:], (y_true == labels[1])[:, None]
