"""Class-wise reliability diagrams, side by side."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._numerics.binning import class_bin_sums
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import TARGETS, StrOptions, validate_params
from sklearn_calib._validation.labels import as_labels, column_classes, is_multilabel
from sklearn_calib._validation.samples import read_labels, read_samples
from sklearn_calib._validation.types import Array, Ints
from sklearn_calib.displays._reliability.reliability_panels import (
    KINDS,
    ReliabilityPanels,
    check_panel_options,
)
from sklearn_calib.metrics import expected_calibration_error, per_label

# Number of classes shown by default.
N_CLASSES = 12


@dataclass(eq=False, repr=False)
class ClasswiseReliabilityDisplay(ReliabilityPanels):
    """Class-wise reliability diagrams: one panel for the probability of each class.

    The panel of a class compares its predicted probability with its frequency. A
    classifier can be calibrated for the predicted class and still be miscalibrated for
    single classes. A calibrated classifier follows the diagonal in each panel. By
    default, at most 12 classes are shown, those with the largest calibration errors.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create one. Several
    classifiers for the same classes can share axes.

    Parameters
    ----------
    displays : list of displays
        One display for each class shown: `ReliabilityDisplay`,
        `SmoothReliabilityDisplay` or `CorpReliabilityDisplay`.

    classes : ndarray of shape (n_shown,)
        Labels of the classes shown; they are the titles of the panels.

    name : str, default=None
        Name of the classifier, shown in the legend.

    Attributes
    ----------
    axes_ : ndarray of shape (n_shown,)
        Axes of the panels, all with the same scale.

    figure_ : matplotlib Figure
        Figure that contains the axes.

    See Also
    --------
    sklearn_calib.metrics.classwise_calibration_error : Mean over all classes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn_calib.displays import ClasswiseReliabilityDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> nb = GaussianNB().fit(X[::2], y[::2])
    >>> display = ClasswiseReliabilityDisplay.from_estimator(nb, X[1::2], y[1::2])
    >>> [ax.get_title().splitlines() for ax in display.axes_]
    [['0', 'ECE 0.000'], ['1', 'ECE 0.036'], ['2', 'ECE 0.036']]
    """

    _takes_indicators = True
    _parts = "classes"
    _column = "class"
    _way_out = "Pass classes= of the earlier display."

    displays: list[Any]
    classes: Array
    _: KW_ONLY
    name: str | None = None

    @classmethod
    @validate_params(
        {**TARGETS, "kind": [StrOptions(set(KINDS))], "classes": ["array-like", None]},
        prefer_skip_nested_validation=False,
    )
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        kind: str = "bins",
        classes: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw the class-wise reliability diagrams of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,) or (n_samples, n_labels)
            True labels, of any type. If samples have several labels, an indicator
            matrix; each panel shows a label.

        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities. A 1-d array contains those of the positive class;
            the panels show both classes. With an indicator matrix, those of each label,
            as in :func:`~sklearn_calib.metrics.per_label`.

        kind : {"bins", "smooth", "corp"}, default="bins"
            Kind of the panels: :class:`ReliabilityDisplay`,
            :class:`SmoothReliabilityDisplay` or :class:`CorpReliabilityDisplay`.

        classes : array-like of shape (n_shown,), default=None
            Labels of the classes to show. By default, all classes, or if there are more
            than 12, the 12 with the largest calibration errors in decreasing order. The
            errors are computed in 15 bins of equal width.

        labels : array-like of shape (n_classes,), default=None
            Class label of each column, such as `estimator.classes_`. By default, the
            sorted distinct values of `y_true`, which must then contain every class, or
            the names or numbers of its columns.

        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        name : str, default=None
            Name in the legend. By default, no name is shown.

        ax : array-like of matplotlib Axes, default=None
            Axes for the panels: the `axes_` of an earlier display of the same classes,
            to show both classifiers, or one axes for each class. By default, a new
            figure.

        **options
            Further arguments of the panels' `from_predictions`, such as `n_bins`,
            `strategy`, `interval`, `random_state`, `color` and `histogram="log"`, but
            not `mode` or `pos_label`.

        Returns
        -------
        display : ClasswiseReliabilityDisplay
            The drawn display.

        Raises
        ------
        ValueError
            If the labels do not match the columns, `y_proba` does not contain
            probabilities, or `ax` shows other classes.

        Examples
        --------
        >>> from sklearn_calib.displays import ClasswiseReliabilityDisplay
        >>> display = ClasswiseReliabilityDisplay.from_predictions(
        ...     [0, 1, 1], [0.2, 0.6, 0.9], n_bins=2
        ... )
        >>> [ax.get_title().splitlines() for ax in display.axes_]
        [['0', 'ECE 0.233'], ['1', 'ECE 0.233']]
        """
        check_panel_options(options, "mode", "pos_label")
        has_indicators = is_multilabel(as_labels(y_true, "y_true"))
        if has_indicators:
            given = y_true, y_proba, labels, sample_weight
            names, indicators, proba, weight = read_labels(*given)
            labels = as_labels(names, "labels")
            outcomes = indicators == 1
        else:
            samples = read_samples(y_true, y_proba, labels, sample_weight, "canonical")
            proba, codes, weight = samples.proba()
            labels = column_classes(y_true, labels)
            outcomes = codes[:, None] == np.arange(len(labels))
        shown = _codes_shown(classes, labels)
        if classes is None and len(labels) > N_CLASSES:
            if has_indicators:
                error = partial(expected_calibration_error, sample_weight=weight)
                errors = per_label(error, outcomes, proba, average=None)
            else:
                _, gap, _ = class_bin_sums(proba, codes, sample_weight=weight)
                errors = np.abs(gap).sum(axis=1)
            shown = np.argsort(-errors, kind="stable")[:N_CLASSES]
        options |= {"sample_weight": weight, "name": name}
        axes = cls._panels(ax, _headings(labels[shown]))
        displays = [
            KINDS[kind].from_predictions(
                # All other samples get the label of another class.
                labels[np.where(outcomes[:, code], code, code - 1)],
                proba[:, code],
                labels=labels[[code - 1, code]],
                ax=panel,
                **options,
            )
            for code, panel in zip(shown, axes, strict=True)
        ]
        return cls(displays, labels[shown], name=name)._finish(axes)

    def _headings(self) -> list[str]:
        return _headings(self.classes)

    def _columns(self) -> dict[str, Array]:
        """Return the columns of all panels."""
        return self._columns_of(self.classes)


def _headings(classes: Array) -> list[str]:
    """Return the first line of the title of each panel."""
    return [f"{label}" for label in classes]


def _codes_shown(classes: ArrayLike | None, labels: Array) -> Ints:
    """Return the columns of the classes to show."""
    classes = labels if classes is None else as_labels(classes, "classes")
    known = labels.tolist()
    if not all(label in known for label in classes.tolist()):
        raise ValueError(
            f"classes must contain labels of columns, {shown(known)}, got "
            f"{shown(classes.tolist())}. Use classes=None for all classes, or for the "
            "12 with the largest errors."
        )
    if not len(classes):
        raise ValueError(
            "classes must contain at least one label, got none. Use classes=None for "
            "all classes, or for the 12 with the largest errors."
        )
    codes = [known.index(label) for label in classes.tolist()]
    if len({*codes}) < len(codes):
        raise ValueError(
            "classes must contain each label at most once, got "
            f"{shown(classes.tolist())}. Remove the repeated labels."
        )
    return np.array(codes)
