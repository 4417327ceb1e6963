"""Decision curve: net benefit at each threshold."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._numerics.bands import (
    draw_bootstrap,
    group_samples,
    pointwise_band,
)
from sklearn_calib._numerics.net_benefit import (
    check_thresholds,
    net_benefit,
    net_benefit_of_all,
    number_reached,
    sums_by_number,
)
from sklearn_calib._validation.declarations import (
    CLUSTERS,
    INTERVAL,
    StrOptions,
    validate_params,
)
from sklearn_calib._validation.types import Array, Floats, Seed
from sklearn_calib.displays._base.axes import (
    ABOVE,
    artists,
    axes_or_new,
    band_label,
    curve_style,
    mark_class,
    named_classes,
    named_lines,
    set_labels,
    set_limits,
)
from sklearn_calib.displays._base.from_cv_results import FoldFields, FromCVResults
from sklearn_calib.displays._base.from_predictions import (
    EVALUATED,
    band_columns,
    confidence_and_correctness,
    read_clusters_of_band,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE, BAND = "decision curve", "decision curve band"
ALL, NONE = "treat all", "treat none"
# Part of the height above the highest and below the lowest value that is shown. The
# curve of treating all falls far below the others.
MARGIN, BELOW = 0.05, 0.2


@dataclass(eq=False, repr=False)
class DecisionCurveDisplay(FromCVResults):
    """Decision curve: net benefit of a classifier at each threshold.

    A classifier is useful at a threshold if its curve is above those of treating all
    samples and of treating none. Higher is better. The thresholds that matter are those
    at which benefit and harm of the treatment balance, which a decision maker chooses.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create one. Several
    displays can share axes, with different colours and markers.

    Parameters
    ----------
    thresholds : ndarray of shape (n_thresholds,)
        Threshold probabilities, in increasing order.

    net_benefit : ndarray of shape (n_thresholds,)
        Net benefit of the classifier at each threshold.

    treat_all : ndarray of shape (n_thresholds,)
        Net benefit of treating all samples.

    band : ndarray of shape (2, n_thresholds) or None, default=None
        Lower and upper end of the band at each threshold.

    confidence_level : float or None, default=0.95
        Confidence level of the band, shown in the legend. None means that the band is
        one standard deviation of several folds.

    pos_label : label, default=None
        Label of the positive class, which the axis label names, or the legend if there
        are curves of other classes on the axes. None for correct predictions.

    name : str, default=None
        Name of the classifier, shown in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the curves.

    figure_ : matplotlib Figure
        Figure that contains the axes.

    line_ : matplotlib Line2D
        Decision curve of the classifier.

    treat_all_line_ : matplotlib Line2D
        Net benefit of treating all samples.

    band_ : matplotlib PolyCollection or None
        The band.

    See Also
    --------
    sklearn_calib.metrics.net_benefit_curve : The values of the curve.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn_calib.displays import DecisionCurveDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> nb = GaussianNB().fit(X[:300], y[:300])
    >>> display = DecisionCurveDisplay.from_estimator(nb, X[300:], y[300:])
    >>> display.ax_.get_ylabel()
    'Net benefit'
    """

    _values = ("net_benefit",)
    _fold_options = {"interval": None}
    _fold_fields = FoldFields(
        curve="net_benefit",
        shared="thresholds",
        averaged=("net_benefit", "treat_all"),
    )

    thresholds: Floats
    net_benefit: Floats
    treat_all: Floats
    _: KW_ONLY
    band: Floats | None = None
    confidence_level: float | None = 0.95
    pos_label: Any = None
    name: str | None = None

    @classmethod
    @validate_params(
        {
            **EVALUATED,
            **CLUSTERS,
            **INTERVAL,
            "thresholds": ["array-like", None],
            "interval": [StrOptions({"bootstrap"}), None],
        }
    )
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        thresholds: ArrayLike | None = None,
        interval: str | None = "bootstrap",
        confidence_level: float = 0.95,
        n_resamples: int = 1000,
        random_state: Seed = None,
        mode: str | None = None,
        pos_label: Any = None,
        labels: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw the decision curve of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels, of any type.

        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities. A 1-d array contains those of the positive class,
            which is the second of the two labels.

        thresholds : array-like of shape (n_thresholds,), default=None
            Threshold probabilities in (0, 1). By default, 0.01, 0.02, ..., 0.99.

        interval : {"bootstrap"} or None, default="bootstrap"
            Band to show: the range of the curves of samples drawn with replacement.

        confidence_level : float, default=0.95
            Pointwise confidence level of the band, in (0, 1).

        n_resamples : int, default=1000
            Number of random draws from which the band is computed.

        random_state : int, RandomState instance or None, default=None
            Controls the random draws. Pass an int for reproducible results.

        mode : {"positive", "top_label", "confidence"}, default=None
            Probability on which decisions depend: that of the positive class of a
            binary problem, or that of the predicted class, where correct predictions
            are positive. By default, "positive" for two classes and "top_label" for
            more. With "confidence", `y_proba` contains the confidence of each
            prediction, and `y_true` whether it is correct.

        pos_label : label, default=None
            Label of the positive class of a binary problem. It sets the mode to
            "positive"; a 1-d array contains the probabilities of this class. By
            default, the second label.

        labels : array-like of shape (n_classes,), default=None
            Class label of each column, such as `estimator.classes_`. By default, the
            sorted distinct values of `y_true`, which must then contain every class.

        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights. The band is computed from the effective number of samples,
            as in :meth:`ReliabilityDisplay.from_predictions`.

        clusters : array-like of shape (n_samples,), default=None
            Cluster of each sample, such as the patient, if the samples of a cluster are
            not independent. Whole clusters are then drawn. By default, all samples are
            independent.

        name : str, default=None
            Name in the legend, by default "Classifier".

        ax : matplotlib Axes, default=None
            Axes to draw on; by default, those of a new figure. On the axes of an
            earlier display, both classifiers are shown.

        **plot_options
            Further arguments of :meth:`plot`: `color`.

        Returns
        -------
        display : DecisionCurveDisplay
            The drawn display.

        Raises
        ------
        ValueError
            If the labels do not match the columns, `y_proba` does not contain
            probabilities, a threshold is not in (0, 1), or `pos_label` is not one of
            two labels.

        Notes
        -----
        For one of several classes, pass `y_true == label` and the column of the class.

        Examples
        --------
        >>> from sklearn_calib.displays import DecisionCurveDisplay
        >>> display = DecisionCurveDisplay.from_predictions(
        ...     [0, 1, 1, 1], [0.2, 0.4, 0.6, 0.9], name="a guess", random_state=0
        ... )
        >>> display.line_.get_label()
        'a guess'
        """
        at = check_thresholds(thresholds)
        _, pos_label, (value, outcome, weight) = confidence_and_correctness(
            y_true, y_proba, mode, pos_label, labels, sample_weight, of_two="positive"
        )
        number = number_reached(value, at)
        sums = sums_by_number(number, outcome, weight, len(at))
        clusters = read_clusters_of_band(
            clusters, len(number), weight, interval, "bootstrap"
        )
        band = None
        if interval is not None:
            # Only the thresholds that a sample reaches matter, not its probability.
            samples = np.zeros(len(number)), outcome, weight, number
            groups = group_samples(*samples, clusters)
            draws = np.zeros((2, n_resamples, len(at) + 1))
            draws[..., groups.bin] = draw_bootstrap(groups, n_resamples, random_state)
            benefit = net_benefit(draws[0], draws[1], at)
            band = pointwise_band(benefit, confidence_level)
        display = cls(
            at,
            net_benefit(*sums, at),
            net_benefit_of_all(*sums, at),
            band=band,
            confidence_level=confidence_level,
            pos_label=pos_label,
            name=name,
        )
        return display._draw_on(ax, **plot_options)

    def _columns(self) -> dict[str, Array]:
        """Return the curve of the classifier and that of treating all samples."""
        names = "thresholds", "net_benefit", "treat_all"
        return {name: getattr(self, name) for name in names} | band_columns(self.band)

    def plot(
        self, ax: Axes | None = None, *, name: str | None = None, color: Any = None
    ) -> Self:
        """Draw the curves.

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
        display : DecisionCurveDisplay
            The object itself, with the artists as attributes.

        Notes
        -----
        The y-axis ends a little below 0, where the curve of treating all samples leaves
        the axes.
        """
        self.ax_ = axes_or_new(ax, (5.6, 4.4))
        self.figure_ = self.ax_.figure
        style = curve_style(self.ax_, LINE, color)
        color = style["color"]
        name = self.name if name is None else name
        (self.line_,) = self.ax_.plot(
            self.thresholds,
            self.net_benefit,
            **style,
            label="Classifier" if name is None else name,
        )
        mark_class(self.line_, self.pos_label)
        self.band_ = None
        if self.band is not None:
            shade = {"color": color, "alpha": 0.2, "linewidth": 0, "gid": BAND}
            shade["label"] = band_label(self.confidence_level)
            self.band_ = self.ax_.fill_between(self.thresholds, *self.band, **shade)
        self.treat_all_line_ = self._draw_treat_all(color)
        self._arrange()
        return self

    def _draw_treat_all(self, color: Any) -> Any:
        """Return the line of treating all, which an earlier display may have drawn."""
        earlier = artists(self.ax_, ALL)
        for line in earlier:
            if np.array_equal(line.get_xydata().T, [self.thresholds, self.treat_all]):
                return line
        # Several lines differ if the classifiers are evaluated on different outcomes.
        color = color if earlier else "0.3"
        style = {"color": color, "linestyle": (0, (7, 4)), "linewidth": 1, "gid": ALL}
        return self.ax_.plot(self.thresholds, self.treat_all, **style)[0]

    def _arrange(self) -> None:
        """Adapt limits and legend to all curves on the axes."""
        ax, lines = self.ax_, artists(self.ax_, LINE)
        if not artists(ax, NONE):
            ax.axhline(0, color="0.3", linestyle=":", gid=NONE)
        named = named_lines(lines)
        of_class, labels = named_classes(named)
        bands = {band.get_label(): band for band in artists(ax, BAND)}
        labels += bands
        handles = [*named, *bands.values()]
        handles += [artists(ax, ALL)[0], *artists(ax, NONE)]
        labels += ["Treat all", "Treat none"]
        ax.legend(handles, labels, ncols=2, columnspacing=1, **ABOVE)
        curves = lines + artists(ax, ALL)
        highest = max(line.get_ydata().max() for line in curves)
        height = max(highest, 0) or 1
        low = min(line.get_xdata()[0] for line in curves)
        high = max(line.get_xdata()[-1] for line in curves)
        set_limits(
            ax,
            x=(low, high) if low < high else (0, 1),
            y=(-BELOW * height, (1 + MARGIN) * height),
        )
        set_labels(ax, xlabel=f"Threshold probability{of_class}", ylabel="Net benefit")
