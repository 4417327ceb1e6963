"""Predictions that displays show, and what they draw as tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._sklearn.response import predict_scores
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.clusters import encode_clusters, read_clusters
from sklearn_calib._validation.declarations import TARGETS, StrOptions
from sklearn_calib._validation.labels import as_labels, column_classes, is_multilabel
from sklearn_calib._validation.samples import read_samples
from sklearn_calib._validation.types import Array, Bools, Floats, Ints, Weights

if TYPE_CHECKING:
    import pandas as pd

# Constraints for diagrams of a single probability, for `validate_params`.
EVALUATED = {
    **TARGETS,
    "mode": [StrOptions({"confidence", "positive", "top_label"}), None],
}


def confidence_and_correctness(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    mode: str | None,
    pos_label: Any,
    labels: ArrayLike | None,
    sample_weight: ArrayLike | None,
    of_two: str = "top_label",
) -> tuple[str, Any, tuple[Floats, Bools, Weights]]:
    """Return the mode, the positive class, and confidences, correctness and weights.

    With `mode="positive"`, confidences are the probabilities of the positive class, and
    a sample counts as correct if it is of that class. In other modes, the class is
    None. With `mode="confidence"`, the arguments already are correctness and
    confidences, of the mode "top_label". If the mode is None, it is `of_two` for two
    columns.
    """
    if mode == "confidence":
        _check_confidences(y_proba, pos_label=pos_label, labels=labels)
        labels = [False, True]
        evaluated = confidence_and_correctness(
            y_true, y_proba, "positive", None, labels, sample_weight
        )
        return "top_label", None, evaluated[-1]
    samples: Any = read_samples(
        y_true, y_proba, labels, sample_weight, mode, pos_label, of_two=of_two
    )
    evaluated = samples.column()
    if samples.mode == "positive" and pos_label is None:
        pos_label = column_classes(y_true, labels)[1]
    return samples.mode, pos_label, evaluated


def read_clusters_of_band(
    clusters: ArrayLike | None,
    n_samples: int,
    weight: Weights,
    interval: str | None,
    valid: str,
) -> Ints | None:
    """Return the clusters of samples; raise ValueError unless the band is valid.

    Labels of the samples of a cluster are not drawn from their probabilities. Without a
    band, clusters are only checked.
    """
    if clusters is not None and interval is None:
        encode_clusters(clusters, n_samples)
        return None
    read = read_clusters(clusters, n_samples, weight)
    if read is not None and interval != valid:
        raise ValueError(
            f'interval must be "{valid}" or None with clusters, got {interval!r}, '
            f'which assumes independent samples. Use interval="{valid}".'
        )
    return read


def _check_confidences(confidence: ArrayLike, **labels: Any) -> None:
    """Raise ValueError unless there are confidences, and no labels of classes."""
    for name, value in labels.items():
        if value is not None:
            raise ValueError(
                f"{name} must be None with mode='confidence', got {shown(value)}. Pass "
                "whether each prediction is correct, as y_true."
            )
    if np.ndim(confidence) != 1:
        raise ValueError(
            "y_proba must be a 1-d array of confidences with mode='confidence', got "
            f"{np.ndim(confidence)} dimensions. Use mode='top_label' for the "
            "probabilities of all classes."
        )


class FrameMixin:
    """Mixin that adds `frame` to a display.

    A display defines `_columns`, and `_values` if some of its points are not drawn.
    """

    # Columns that are nan for points that are not drawn.
    _values: tuple[str, ...]

    def frame(self) -> pd.DataFrame:
        """Return what the display draws as a table.

        Returns
        -------
        table : DataFrame
            One row for each point or bar drawn. The columns are the parameters of the
            constructor that contain one number for each of them. "low" and "high" are
            the ends of the interval, and "bin_low" and "bin_high" the edges of the bin.
            `ClasswiseReliabilityDisplay` has the column "class", and
            `GroupReliabilityDisplay` the column "group". Displays of a training have
            the columns "epoch" and "bin", with all bins.
        """
        import pandas as pd

        table = pd.DataFrame(self._columns())
        return table.dropna(subset=list(self._values), how="all", ignore_index=True)

    def _columns(self) -> dict[str, Array]:
        """Return the columns of the table, all of the same length."""
        raise NotImplementedError


class FromEstimator(FrameMixin):
    """Mixin that adds `from_estimator` to a display with `from_predictions`."""

    from_predictions: ClassVar[Callable[..., Any]]
    # The method of the classifier whose result is drawn, and what to do without it.
    _response: ClassVar[str] = "predict_proba"
    _other_way: ClassVar[str] = (
        "To use decision_function, wrap it in "
        'CalibratedClassifier(response_method="decision_function").'
    )

    # Whether `y` may be an indicator matrix, of samples with several labels.
    _takes_indicators: ClassVar[bool] = False

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
            A fitted classifier with `predict_proba`; for :class:`PredictionSetDisplay`,
            with `predict_pvalue`.

        X : array-like of shape (n_samples, n_features)
            Data that the classifier was not trained on.

        y : array-like of shape (n_samples,)
            True labels. :class:`ClasswiseReliabilityDisplay` also takes an indicator
            matrix, if samples have several labels.

        name : str, default=None
            Name in the legend. By default, the class name of the classifier.

        **options
            Further arguments of :meth:`from_predictions`, such as `sample_weight` and
            `ax`. `labels` must not be passed, because it is `estimator.classes_`.

        Returns
        -------
        display : object
            The drawn display.

        Raises
        ------
        TypeError
            If the estimator does not have the method, or `labels` is passed.
        """
        if "labels" in options:
            raise TypeError(
                "labels must not be passed to from_estimator, which uses "
                f"estimator.classes_, got {options['labels']!r:.80}. Leave labels out, "
                "or use from_predictions."
            )
        if not hasattr(estimator, cls._response):
            raise TypeError(
                f"estimator must be a classifier with {cls._response}, got "
                f"{shown(estimator)}. {cls._other_way}"
            )
        if cls._response == "predict_proba":
            is_indicator = cls._takes_indicators and is_multilabel(as_labels(y, "y"))
            classes = [*estimator.classes_] if is_indicator else None
            returned = predict_scores(estimator, X, False, classes)
        else:
            is_indicator = False
            returned = getattr(estimator, cls._response)(X)
        return cls.from_predictions(
            y,
            returned,
            labels=None if is_indicator else estimator.classes_,
            name=type(estimator).__name__ if name is None else name,
            **cls._options_of(estimator, X, options),
        )

    @classmethod
    def _options_of(
        cls, _estimator: Any, _X: Any, options: dict[str, Any], /
    ) -> dict[str, Any]:
        """Return the options, with those that follow from the estimator."""
        return options


def band_columns(band: Array | None) -> dict[str, Array]:
    """Return the columns of a band (2, n), if there is one."""
    return {} if band is None else {"low": band[0], "high": band[1]}


def columns_by_epoch(epochs: Ints, **tables: Array) -> dict[str, Array]:
    """Return the columns of tables (n_epochs, n_bins), one row for each cell."""
    n_bins = next(iter(tables.values())).shape[1]
    index = {
        "epoch": np.repeat(epochs, n_bins),
        "bin": np.tile(np.arange(n_bins), len(epochs)),
    }
    return index | {name: table.ravel() for name, table in tables.items()}
