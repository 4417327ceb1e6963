"""Predictions that displays show: from a fitted classifier, or as arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._core.arrays import check_unmasked, shown
from sklearn_calib._core.inputs import (
    TARGETS,
    check_targets,
    classes_of,
    code_of_label,
    confidence_and_correct,
    resolve_mode,
)
from sklearn_calib._core.typing import Array, Bools, Floats, Weights
from sklearn_calib._core.validation import StrOptions, check_proba
from sklearn_calib.displays._frame import Framed

# Constraints for diagrams of a single probability, for `validate_params`.
EVALUATED = {
    **TARGETS,
    "mode": [StrOptions({"confidence", "positive", "top_label"}), None],
}


class FromEstimator(Framed):
    """Mixin that adds `from_estimator` to a display with `from_predictions`."""

    from_predictions: ClassVar[Callable[..., Any]]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        name: str | None = None,
        **options: Any,
    ) -> Self:
        """Draw the display of a fitted classifier.

        Parameters
        ----------
        estimator : classifier
            A fitted classifier with `predict_proba`.

        X : array-like of shape (n_samples, n_features)
            Data that the classifier was not trained on.

        y : array-like of shape (n_samples,)
            True labels.

        name : str, default=None
            Name in the legend. By default, the class name of the classifier.

        **options
            Further arguments of :meth:`from_predictions`, such as `sample_weight` and
            `ax`. `labels` is set to `estimator.classes_`.

        Returns
        -------
        display : object
            The drawn display.

        Raises
        ------
        TypeError
            If the estimator has no `predict_proba`.
        """
        if not hasattr(estimator, "predict_proba"):
            raise TypeError(
                "estimator must be a classifier with predict_proba, got "
                f"{shown(estimator)}. To use decision_function, wrap it in "
                'CalibratedClassifier(response_method="decision_function").'
            )
        check_unmasked(X, "X")
        return cls.from_predictions(
            y,
            estimator.predict_proba(X),
            labels=estimator.classes_,
            name=type(estimator).__name__ if name is None else name,
            **cls._options_of(estimator, X, options),
        )

    @classmethod
    def _options_of(
        cls, _estimator: Any, _X: Any, options: dict[str, Any], /
    ) -> dict[str, Any]:
        """Return the options, with those that follow from the estimator."""
        return options


def evaluate(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    mode: str | None,
    pos_label: Any,
    labels: ArrayLike | None,
    sample_weight: ArrayLike | None,
    of_two: str = "top_label",
) -> tuple[str, tuple[Floats, Bools, Weights]]:
    """Return the mode and the confidences, correctness and weights of the samples.

    With `mode="positive"`, confidences are the probabilities of the positive class, and
    a sample counts as correct if it is of that class. With `mode="confidence"`, the
    arguments already are correctness and confidences, of the mode "top_label". If the
    mode is None, it is `of_two` for two columns.
    """
    if mode == "confidence":
        _check_confidences(y_proba, pos_label=pos_label, labels=labels)
        labels = [False, True]
        evaluated = evaluate(y_true, y_proba, "positive", None, labels, sample_weight)
        return "top_label", evaluated[1]
    proba, codes, weight = check_targets(y_true, y_proba, labels, sample_weight)
    if pos_label is None:
        mode = resolve_mode(mode, proba, of_two)
        return mode, (*confidence_and_correct(proba, codes, mode), weight)
    classes = classes_of(y_true, labels)
    code = _code_of(pos_label, mode, classes)
    positive = check_proba(proba, allow_1d=True)
    positive = positive if proba.ndim == 1 else positive[:, code].copy()
    return "positive", (positive, codes == code, weight)


def _check_confidences(confidence: ArrayLike, **labels: Any) -> None:
    """Raise ValueError unless there are confidences, and no labels of classes."""
    for name, value in labels.items():
        if value is not None:
            raise ValueError(
                f"{name} must be None with mode='confidence', got {shown(value)}. Pass "
                "whether each prediction is correct as y_true."
            )
    if np.ndim(confidence) != 1:
        raise ValueError(
            "y_proba must be a 1-d array of confidences with mode='confidence', got "
            f"{np.ndim(confidence)} dimensions. Use mode='top_label' for the "
            "probabilities of all classes."
        )


def _code_of(pos_label: Any, mode: str | None, classes: Array) -> int:
    """Return the column of the positive class."""
    if len(classes) != 2 or mode == "top_label":
        raise ValueError(
            "pos_label must be None with mode='top_label' or more than two classes, "
            f"got {shown(pos_label)} with mode={mode!r} and {len(classes)} classes. "
            "Use ClasswiseReliabilityDisplay to show the probability of each class."
        )
    code = code_of_label(pos_label, classes)
    if code is None:
        raise ValueError(
            f"pos_label must be one of {shown(classes.tolist())}, got "
            f"{shown(pos_label)}. Pass the label of the class whose probability to "
            "show."
        )
    return code
