"""Class-wise reliability diagrams, side by side."""

from __future__ import annotations

from math import ceil, sqrt
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._core.arrays import as_labels
from sklearn_calib._core.class_bins import class_bin_sums
from sklearn_calib._core.inputs import (
    TARGETS,
    as_columns,
    check_targets,
    classes_of,
)
from sklearn_calib._core.typing import Array, Floats, Ints, Options, Weights
from sklearn_calib._core.validation import StrOptions, check_proba, validate_params
from sklearn_calib.displays._axes import artists, new_axes
from sklearn_calib.displays._corp_reliability import CorpReliabilityDisplay
from sklearn_calib.displays._diagram import LINE, check_histogram
from sklearn_calib.displays._predictions import FromEstimator
from sklearn_calib.displays._reliability import ReliabilityDisplay
from sklearn_calib.displays._smooth_reliability import SmoothReliabilityDisplay

KINDS: dict[str, Any] = {
    "bins": ReliabilityDisplay,
    "corp": CorpReliabilityDisplay,
    "smooth": SmoothReliabilityDisplay,
}
# Number of classes shown by default.
N_CLASSES = 12
# The title of a panel has no space for the errors of more classifiers.
MOST_ERRORS = 3


class ClasswiseReliabilityDisplay(FromEstimator):
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

    _values = ("prob_true",)

    def __init__(
        self, displays: list[Any], classes: Array, *, name: str | None = None
    ) -> None:
        self.displays = displays
        self.classes = classes
        self.name = name

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
        y_true : array-like of shape (n_samples,)
            True labels, of any type.

        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities. A 1-d array contains those of the positive class;
            the panels show both classes.

        kind : {"bins", "smooth", "corp"}, default="bins"
            Kind of the panels: :class:`ReliabilityDisplay`,
            :class:`SmoothReliabilityDisplay` or :class:`CorpReliabilityDisplay`.

        classes : array-like of shape (n_shown,), default=None
            Labels of the classes to show. By default, all classes, or if there are more
            than 12, the 12 with the largest calibration errors in decreasing order. The
            errors are computed in 15 bins of equal width.

        labels : array-like of shape (n_classes,), default=None
            Class label of each column, such as `estimator.classes_`. By default, the
            sorted distinct values of `y_true`, which must then contain every class.

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
        ...     ["ham", "spam", "spam"], [0.2, 0.6, 0.9], n_bins=2
        ... )
        >>> [ax.get_title().splitlines() for ax in display.axes_]
        [['ham', 'ECE 0.233'], ['spam', 'ECE 0.233']]
        """
        _check_options(options)
        proba, codes, weight = check_targets(y_true, y_proba, labels, sample_weight)
        columns = check_proba(as_columns(proba)).T
        labels = classes_of(y_true, labels)
        if classes is None and len(labels) > N_CLASSES:
            shown = _largest_errors(columns, codes, weight)
        else:
            shown = _codes_shown(classes, labels)
        options |= {"labels": [False, True], "sample_weight": weight, "name": name}
        axes = _panels(ax, labels[shown])
        displays = [
            KINDS[kind].from_predictions(
                codes == code, columns[code], ax=panel, **options
            )
            for code, panel in zip(shown, axes, strict=True)
        ]
        return cls(displays, labels[shown], name=name)._finish(axes)

    def plot(
        self,
        ax: Any = None,
        *,
        name: str | None = None,
        color: Any = None,
        histogram: bool | str = True,
    ) -> Self:
        """Draw the diagrams.

        Parameters
        ----------
        ax : array-like of matplotlib Axes, default=None
            Axes for the panels: the `axes_` of an earlier display of the same classes,
            to show both classifiers, or one axes for each class. By default, a new
            figure.

        name : str, default=None
            Name in the legend; by default, the name given to the constructor.

        color : matplotlib color, default=None
            Color of the classifier; by default, the next color of a palette that is
            safe for colour-blind readers.

        histogram : True or "log", default=True
            Scale of the histograms of probabilities: linear or logarithmic.

        Returns
        -------
        display : ClasswiseReliabilityDisplay
            The object itself, with the artists as attributes.
        """
        _check_options({"histogram": histogram})
        name = self.name if name is None else name
        axes = _panels(ax, self.classes)
        for display, panel in zip(self.displays, axes, strict=True):
            display.plot(panel, name=name, color=color, histogram=histogram)
        return self._finish(axes)

    def _finish(self, axes: list[Any]) -> Self:
        """Replace titles, labels and legends of the single panels by common ones."""
        n_columns = _n_columns(len(axes))
        limits = [each.histogram_ax_.get_ylim() for each in self.displays]
        bottom, top = np.min(limits), np.max(limits)
        for index, (panel, display) in enumerate(zip(axes, self.displays, strict=True)):
            below = display.histogram_ax_
            for ax in panel, below:
                if ax.get_legend():
                    ax.get_legend().remove()
                ax.tick_params(labelleft=index % n_columns == 0)
                ax.set(xticks=[0, 0.5, 1], xlabel="", ylabel="")
            below.tick_params(labelbottom=index + n_columns >= len(axes))
            below.set_ylim(bottom, top)
            _write_title(panel, self.classes[index], display)
        for index in range(0, len(axes), n_columns):
            axes[index].set_ylabel("Frequency")
            self.displays[index].histogram_ax_.set_ylabel("Samples")
        for display in self.displays[-n_columns:]:
            display.histogram_ax_.set_xlabel("Probability")
        self.axes_ = np.array(axes, dtype=object)
        self.figure_ = axes[0].figure
        self._show_legend(axes[n_columns - 1])
        return self

    def _columns(self) -> dict[str, Array]:
        """Return the columns of all panels."""
        parts = [display._columns() for display in self.displays]
        counts = [len(next(iter(part.values()))) for part in parts]
        columns = {"class": np.repeat(self.classes, counts)}
        return columns | {
            name: np.concatenate([part[name] for part in parts]) for name in parts[0]
        }

    def _show_legend(self, panel: Any) -> None:
        """Show a legend of the classifiers, or of the parts of a single diagram."""
        lines = artists(self.axes_[0], LINE)
        handles = [(line, _name_in(line.get_label())) for line in lines]
        if len(lines) == 1:
            first = self.displays[0]
            (bars, _), *others = first._handles()
            handles = [(bars, handles[0][1]), *others, *first._band_handles()]
        handles = [each for each in handles if each[1]]
        if not handles:
            return
        panel.legend(
            *zip(*handles, strict=True),
            loc="upper left",
            bbox_to_anchor=(1.02, 1),
            borderaxespad=0,
            fontsize="small",
            frameon=False,
        )


def _name_in(label: str) -> str | None:
    """Return the classifier's name in the label of a line, without the errors."""
    name, is_found, _ = label.replace("\n", " (").rpartition(" (")
    return name if is_found else None


def _check_options(options: Options) -> None:
    """Raise ValueError for options that each panel sets separately."""
    refused = sorted({"mode", "pos_label"} & set(options))
    histogram = options.get("histogram", True)
    check_histogram(histogram)
    if not histogram:
        refused = ["histogram", *refused]
    if refused:
        raise ValueError(
            "options must not contain histogram=False, mode or pos_label, got "
            f"{refused}. Leave them out: each panel shows the probability of its class "
            "and a histogram."
        )


def _largest_errors(columns: Floats, codes: Ints, weight: Weights) -> Ints:
    """Return the classes of the largest calibration errors, in decreasing order."""
    _, gap, _ = class_bin_sums(columns.T, codes, sample_weight=weight)
    return np.argsort(-np.abs(gap).sum(axis=1), kind="stable")[:N_CLASSES]


def _codes_shown(classes: ArrayLike | None, labels: Array) -> Ints:
    """Return the columns of the classes to show."""
    classes = labels if classes is None else as_labels(classes, "classes")
    known = labels.tolist()
    if not all(each in known for each in classes.tolist()):
        raise ValueError(
            f"classes must contain labels of columns, {known}, got {classes.tolist()}. "
            "Use classes=None for all classes, or for the 12 with the largest errors."
        )
    if not len(classes):
        raise ValueError(
            "classes must contain at least one label, got none. Use classes=None for "
            "all classes, or for the 12 with the largest errors."
        )
    return np.array([known.index(each) for each in classes.tolist()])


def _n_columns(n_panels: int) -> int:
    """Return the number of panels in a row."""
    return n_panels if n_panels < 5 else ceil(sqrt(n_panels))


def _panels(ax: Any, classes: Array) -> list[Any]:
    """Return a list of axes: new ones with the same scale, or those in `ax`."""
    n_panels = len(classes)
    if ax is not None:
        axes = np.ravel(np.asarray(ax, dtype=object)).tolist()
        _check_panels(axes, classes)
        return axes
    n_columns = _n_columns(n_panels)
    n_rows = -(-n_panels // n_columns)
    frame = new_axes((2.3 * n_columns + 2.5, 2.9 * n_rows + 0.4))
    figure: Any = frame.figure
    # A layout engine would give the panels different sizes.
    figure.set_layout_engine("none")
    width, height = figure.get_size_inches()
    sides = {"left": 0.8 / width, "right": 1 - 1.9 / width}
    sides |= {"bottom": 0.5 / height, "top": 1 - 0.5 / height}
    frame.remove()
    grid = figure.add_gridspec(n_rows, n_columns, wspace=0.2, hspace=0.22, **sides)
    axes = []
    for index in range(n_panels):
        first = axes[0] if axes else None
        place = grid[divmod(index, n_columns)]
        axes.append(figure.add_subplot(place, sharex=first, sharey=first))
    return axes


def _check_panels(axes: list[Any], classes: Array) -> None:
    """Raise ValueError unless the given axes are for these classes."""
    if len(axes) != len(classes):
        raise ValueError(
            f"ax must contain one axes for each of {len(classes)} classes, got "
            f"{len(axes)}. Use ax=None for a new figure."
        )
    titles = [f"{label}" for label in classes]
    earlier = [panel.get_title().rpartition("\n")[0] for panel in axes]
    if artists(axes[0], LINE) and earlier != titles:
        raise ValueError(
            f"ax must show the same classes, {titles}, got {earlier}. Pass classes= of "
            "the earlier display."
        )


def _write_title(panel: Any, label: Any, display: Any) -> None:
    """Set the title of a panel: the class, and the error of each classifier."""
    word, attribute = display._scores[0]
    value = f"{getattr(display, attribute):.3f}"
    n_classifiers, errors = len(artists(panel, LINE)), f"{word} {value}"
    if n_classifiers > 1:
        errors = panel.get_title().rpartition("\n")[2]
        errors += f", {value}" if word in errors.split() else f", {word} {value}"
    if n_classifiers > MOST_ERRORS:
        errors = ""
    panel.set_title(f"{label}\n{errors}", fontsize="medium")
