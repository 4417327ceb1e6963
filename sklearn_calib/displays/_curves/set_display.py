"""Coverage and mean size of prediction sets over confidence levels."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._validation.declarations import TARGETS, validate_params
from sklearn_calib._validation.probabilities import LEVEL_ROUNDING
from sklearn_calib._validation.samples import read_class_values
from sklearn_calib._validation.types import Floats
from sklearn_calib.displays._base.axes import (
    ABOVE,
    artists,
    axes_or_new,
    curve_style,
    set_labels,
)
from sklearn_calib.displays._base.from_predictions import FromEstimator
from sklearn_calib.metrics import class_coverage_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE, LEVEL = "prediction set line", "confidence level"
LEVELS = np.arange(50, 100) / 100
# Levels whose coverage is marked, and the one with values in the legend.
MARKED, NAMED = (0.8, 0.9, 0.95), 0.9
# Number of classifiers from which on the legend is above the axes.
N_LEGEND_ABOVE = 3


@dataclass(eq=False, repr=False)
class PredictionSetDisplay(FromEstimator):
    """Prediction sets: their coverage against their mean size, over confidence levels.

    Each point of the curve is a confidence level. Of several classifiers, the one with
    the smallest sets at a coverage is the best. Markers show the levels 0.8, 0.9 and
    0.95, and dashes of the same colour show the coverage that is wanted there.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create one. Several
    displays can share axes, with different colours and markers.

    Parameters
    ----------
    confidence_level : ndarray of shape (n_levels,)
        Confidence levels, in increasing order.

    coverage : ndarray of shape (n_levels,)
        Fraction of the sets that contain the true class at each level.

    size : ndarray of shape (n_levels,)
        Mean number of classes in a set at each level.

    class_error : float, default=None
        Class coverage gap (CovGap) at the level 0.9, shown in the legend.

    name : str, default=None
        Name of the classifier, shown in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the curve.

    figure_ : matplotlib Figure
        Figure that contains the axes.

    line_ : matplotlib Line2D
        Coverage against mean size.

    level_line_ : matplotlib Line2D
        The wanted coverages at the marked levels.

    See Also
    --------
    sklearn_calib.PredictionSetClassifier : Classifier that predicts sets.
    sklearn_calib.metrics.set_coverage_score : Coverage of sets.
    sklearn_calib.metrics.mean_set_size_loss : Mean size of sets.
    sklearn_calib.metrics.class_coverage_error : Class coverage gap (CovGap).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn_calib import PredictionSetClassifier
    >>> from sklearn_calib.displays import PredictionSetDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> model = PredictionSetClassifier(GaussianNB()).fit(X[:900], y[:900])
    >>> display = PredictionSetDisplay.from_estimator(model, X[900:], y[900:])
    >>> display.ax_.get_xlabel()
    'Mean set size'
    """

    _values = ("size",)
    _response = "predict_pvalue"
    _other_way = "Wrap it in PredictionSetClassifier."

    confidence_level: Floats
    coverage: Floats
    size: Floats
    _: KW_ONLY
    class_error: float | None = None
    name: str | None = None

    @classmethod
    @validate_params(
        {
            "y_true": TARGETS["y_true"],
            "y_pvalue": ["array-like"],
            "labels": TARGETS["labels"],
            "sample_weight": TARGETS["sample_weight"],
        }
    )
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pvalue: ArrayLike,
        *,
        labels: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw the coverage and the size of the sets of conformal p-values.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels, of any type.

        y_pvalue : array-like of shape (n_samples, n_classes)
            Conformal p-values, such as the result of `predict_pvalue`. A class is in
            the set of a confidence level if its p-value is above 1 minus the level.

        labels : array-like of shape (n_classes,), default=None
            Class label of each column, such as `estimator.classes_`. By default, the
            sorted distinct values of `y_true`.

        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights. A weight of 2 is equivalent to including the sample twice.

        name : str, default=None
            Name in the legend. By default, the legend shows only the mean size and the
            class coverage gap.

        ax : matplotlib Axes, default=None
            Axes to draw on; by default, those of a new figure. On the axes of an
            earlier display, both classifiers are shown.

        **plot_options
            Further arguments of :meth:`plot`: `color`.

        Returns
        -------
        display : PredictionSetDisplay
            The drawn display.

        Raises
        ------
        ValueError
            If the labels do not match the columns, or `y_pvalue` contains values
            outside of [0, 1].

        Examples
        --------
        >>> from sklearn_calib.displays import PredictionSetDisplay
        >>> display = PredictionSetDisplay.from_predictions(
        ...     [0, 1, 0, 1],
        ...     [[0.9, 0.2], [0.3, 0.8], [0.2, 0.6], [0.1, 0.9]],
        ...     name="one",
        ... )
        >>> display.line_.get_label()
        'one (mean size 1.75, CovGap 0.10 at level 0.9)'
        """
        pvalue, codes, weight = read_class_values(
            y_true,
            y_pvalue,
            labels,
            sample_weight,
            name="y_pvalue",
            is_valid=lambda values: ((values >= 0) & (values <= 1)).all(),
            content="the p-value of each class, in [0, 1],",
            source="predict_pvalue",
        )
        of_true, limits = pvalue[np.arange(len(codes)), codes], 1 - LEVELS
        limits += LEVEL_ROUNDING
        sizes = np.array([np.count_nonzero(pvalue > limit, axis=1) for limit in limits])
        class_error = class_coverage_error(
            codes,
            pvalue > 1 - NAMED + LEVEL_ROUNDING,
            confidence_level=NAMED,
            labels=range(pvalue.shape[1]),
            sample_weight=weight,
        )
        display = cls(
            confidence_level=LEVELS,
            coverage=np.average(of_true > limits[:, None], axis=1, weights=weight),
            size=np.average(sizes, axis=1, weights=weight),
            class_error=class_error,
            name=name,
        )
        return display.plot(ax, **plot_options)

    def _columns(self) -> dict[str, Floats]:
        """Return the points of the curve."""
        names = "confidence_level", "coverage", "size"
        return {name: getattr(self, name) for name in names}

    def plot(
        self, ax: Axes | None = None, *, name: str | None = None, color: Any = None
    ) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; by default, those of a new figure. On the axes of an
            earlier display, both classifiers are shown.

        name : str, default=None
            Name in the legend; by default, the name given to the constructor.

        color : matplotlib color, default=None
            Color of the classifier; by default, the next color of a palette that is
            safe for colour-blind readers.

        Returns
        -------
        display : PredictionSetDisplay
            The object itself, with the artists as attributes.
        """
        self.ax_ = axes_or_new(ax, (5.6, 4.4))
        self.figure_ = self.ax_.figure
        indices = [int(abs(self.confidence_level - level).argmin()) for level in MARKED]
        style = {**curve_style(self.ax_, LINE, color), "markevery": indices}
        size = np.interp(NAMED, self.confidence_level, self.size)
        label = f"mean size {size:.2f}"
        if self.class_error is not None:
            label += f", CovGap {self.class_error:.2f}"
        label += f" at level {NAMED}"
        name = self.name if name is None else name
        (self.line_,) = self.ax_.plot(
            self.size,
            self.coverage,
            **style,
            label=label if name is None else f"{name} ({label})",
        )
        (self.level_line_,) = self.ax_.plot(
            self.size[indices],
            self.confidence_level[indices],
            color=style["color"],
            linestyle="none",
            marker="_",
            markersize=18,
            gid=LEVEL,
        )
        self._decorate()
        return self

    def _decorate(self) -> None:
        """Adapt the legend to all curves on the axes."""
        from matplotlib.lines import Line2D

        lines = artists(self.ax_, LINE)
        wanted = Line2D(
            [], [], color="0.3", linestyle="none", marker="_", markersize=12
        )
        levels = ", ".join(map(str, MARKED[:-1])) + f" and {MARKED[-1]}"
        labels = [*(line.get_label() for line in lines), f"Levels {levels}"]
        is_above = len(lines) >= N_LEGEND_ABOVE
        location = ABOVE if is_above else {"loc": "lower right", "fontsize": "small"}
        self.ax_.legend([*lines, wanted], labels, **location)
        set_labels(self.ax_, xlabel="Mean set size", ylabel="Coverage")
