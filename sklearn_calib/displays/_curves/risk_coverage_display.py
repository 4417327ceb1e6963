"""Risk-coverage curve, compared with an oracle and a random ranking."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._numerics.risk_coverage import (
    ESTIMATORS,
    LOSS,
    RANKING,
    Loss,
    curve,
    group_by_confidence,
    score_samples,
)
from sklearn_calib._validation.declarations import Interval, validate_params
from sklearn_calib._validation.types import Confidence, Floats
from sklearn_calib.displays._base.axes import (
    ABOVE,
    artists,
    axes_or_new,
    band_label,
    curve_style,
    named_lines,
    set_labels,
    set_limits,
)
from sklearn_calib.displays._base.from_cv_results import FoldFields, FromCVResults
from sklearn_calib.displays._base.from_predictions import band_columns
from sklearn_calib.estimators import SelectiveClassifier

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE, POINT, BAND = "risk-coverage line", "operating point", "risk-coverage band"
RISKS = {"zero_one": "Risk (error rate)", "log": "Risk (mean log loss)"}
# Coverages at which the curves are drawn.
COVERAGE = np.linspace(0, 1, 1001)[1:]
# At a lower coverage, the risk of a few samples would determine the scale of the axis.
FIRST_SHOWN = 0.02
# Fractions of the height that the legend takes, for its frame and for each row.
LEGEND, LEGEND_ROW = 0.06, 0.05
# Number of classifiers from which on the legend is above the axes.
N_LEGEND_ABOVE = 3
# Styles of the reference curves, which have the classifier's colour.
REFERENCES: dict[str, Any] = {
    "Random order": {"linestyle": (0, (7, 4)), "linewidth": 1, "alpha": 0.8},
    "Oracle": {"linestyle": ":", "alpha": 0.9},
}
POINT_STYLE: dict[str, Any] = {
    "linestyle": "none",
    "marker": "*",
    "markersize": 15,
    "markeredgecolor": "black",
    "markeredgewidth": 0.8,
}


CONSTRAINTS = {
    **RANKING,
    **LOSS,
    "threshold": [Interval(Real, None, None, closed="both"), None],
}


@dataclass(eq=False, repr=False)
class RiskCoverageDisplay(FromCVResults):
    """Risk-coverage curve: risk of the most confident samples at each coverage.

    A selective classifier accepts the most confident samples and abstains on the
    others. Coverage is the fraction of accepted samples, and risk is their mean loss.
    Lower is better.

    Two reference curves show other rankings of the same predictions. The oracle ranks
    the samples by their loss, which gives the lowest possible risk. A random order has
    the same expected risk at every coverage. Both depend on the predictions, so they
    are drawn in the colour of the classifier.

    For a :class:`~sklearn_calib.SelectiveClassifier`, a star marks its operating point:
    the coverage and the risk at its threshold.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create one. Several
    displays can share axes, with different colours and markers.

    Parameters
    ----------
    coverage : ndarray of shape (n_points,)
        Fractions of the samples, in (0, 1] and in increasing order.

    risk : ndarray of shape (n_points,)
        Mean loss of the most confident samples at each coverage. The last value is also
        the risk of a random order at any coverage.

    oracle_risk : ndarray of shape (n_points,)
        Mean loss of the samples with the lowest losses at each coverage.

    aurc : float
        Area under the risk-coverage curve (AURC), shown in the legend.

    name : str, default=None
        Name of the classifier, shown in the legend.

    risk_name : str, default="Risk"
        Label of the y-axis.

    operating_point : tuple of two floats, default=None
        Coverage and risk at the threshold of a selective classifier.

    band : ndarray of shape (2, n_points) or None, default=None
        Lower and upper end of the band of several folds at each coverage.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the curves.

    figure_ : matplotlib Figure
        Figure that contains the axes.

    line_ : matplotlib Line2D
        Risk-coverage curve of the classifier.

    oracle_line_ : matplotlib Line2D
        Risk-coverage curve of the oracle.

    random_line_ : matplotlib Line2D
        Risk of a random order.

    point_ : matplotlib Line2D or None
        Operating point, if there is one.

    band_ : matplotlib PolyCollection or None
        The band, if there is one.

    See Also
    --------
    sklearn_calib.metrics.aurc_loss : The area in the legend.
    sklearn_calib.metrics.excess_aurc_loss : AURC minus that of a perfect ranking.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn_calib.displays import RiskCoverageDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> classifier = GaussianNB().fit(X[:900], y[:900])
    >>> display = RiskCoverageDisplay.from_estimator(classifier, X[900:], y[900:])
    >>> display.ax_.get_xlabel()
    'Coverage'
    """

    _values = ("risk",)
    _scores = (("AURC", "aurc"),)
    _decimals = 4
    _fold_fields = FoldFields(
        curve="risk", shared="coverage", averaged=("risk", "oracle_risk")
    )

    coverage: Floats
    risk: Floats
    _: KW_ONLY
    oracle_risk: Floats
    aurc: float
    name: str | None = None
    risk_name: str = "Risk"
    operating_point: tuple[float, float] | None = None
    band: Floats | None = None

    @classmethod
    def _options_of(
        cls, estimator: Any, X: Any, options: dict[str, Any], /
    ) -> dict[str, Any]:
        if not isinstance(estimator, SelectiveClassifier) or "confidence" in options:
            return options
        confidence, threshold = estimator._confidence(X), estimator.threshold_
        return {"confidence": confidence, "threshold": threshold, **options}

    @classmethod
    @validate_params(CONSTRAINTS)
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        confidence: Confidence = "msp",
        loss: Loss = "zero_one",
        pos_label: Any = None,
        labels: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        threshold: float | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw the risk-coverage curve of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels, of any type.

        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities. A 1-d array contains those of the positive class.

        confidence : str, callable or array-like of shape (n_samples,), default="msp"
            Confidence score that ranks the samples, as in
            :func:`sklearn_calib.metrics.risk_coverage_curve`.

        loss : {"zero_one", "log"} or callable, default="zero_one"
            Loss whose mean is the risk, as in
            :func:`sklearn_calib.metrics.risk_coverage_curve`.

        pos_label : label, default=None
            Label of the class whose probabilities a 1-d array contains. By default, the
            second of the two labels.

        labels : array-like of shape (n_classes,), default=None
            Class label of each column, such as `estimator.classes_`. By default, the
            sorted distinct values of `y_true`.

        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights. Their scale affects only the area, as in
            :func:`sklearn_calib.metrics.aurc_loss`.

        threshold : float, default=None
            Lowest accepted confidence, whose operating point to mark. It is not marked
            if no sample is accepted. For a :class:`~sklearn_calib.SelectiveClassifier`,
            :meth:`from_estimator` sets `confidence` and `threshold`, unless
            `confidence` is given.

        name : str, default=None
            Name in the legend. By default, the legend shows only the area.

        ax : matplotlib Axes, default=None
            Axes to draw on; by default, those of a new figure. On the axes of an
            earlier display, both classifiers are shown.

        **plot_options
            Further arguments of :meth:`plot`: `color`.

        Returns
        -------
        display : RiskCoverageDisplay
            The drawn display.

        Raises
        ------
        ValueError
            If the labels do not match the columns, `y_proba` does not contain
            probabilities, or the confidence is unknown or NaN.

        Notes
        -----
        For samples with equal confidence, the curve and the area are averages over all
        orders of these samples.

        Examples
        --------
        >>> from sklearn_calib.displays import RiskCoverageDisplay
        >>> display = RiskCoverageDisplay.from_predictions(
        ...     [0, 1, 0, 1], [0.1, 0.9, 0.8, 0.7], name="a guess"
        ... )
        >>> display.line_.get_label()
        'a guess (AURC 0.1458)'
        """
        scores, losses, weight = score_samples(
            y_true, y_proba, confidence, loss, labels, sample_weight, pos_label
        )
        mass, total_loss, ranked = group_by_confidence(scores, losses, weight)
        oracle = group_by_confidence(-1.0 * losses, losses, weight)
        display = cls(
            coverage=COVERAGE,
            risk=_risk_at(COVERAGE, mass, total_loss),
            oracle_risk=_risk_at(COVERAGE, *oracle[:2]),
            aurc=ESTIMATORS["mean"](mass, total_loss),
            name=name,
            risk_name="Risk (mean loss)" if callable(loss) else RISKS[loss],
            operating_point=_point_at(threshold, mass, total_loss, ranked),
        )
        return display._draw_on(ax, **plot_options)

    def _columns(self) -> dict[str, Floats]:
        """Return the curve of the classifier and that of the oracle."""
        names = "coverage", "risk", "oracle_risk"
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
        display : RiskCoverageDisplay
            The object itself, with the artists as attributes.

        Notes
        -----
        The scale of the y-axis is set by the risk at coverages of at least 0.02. At
        lower coverages, the curve may leave the axes. From three classifiers on, the
        legend is above the axes; figures with ``layout="constrained"`` make space for
        it.
        """
        self.ax_ = axes_or_new(ax, (5.6, 4.4))
        self.figure_ = self.ax_.figure
        style = curve_style(self.ax_, LINE, color)
        color = style["color"]
        name = self.name if name is None else name
        aurc = f"AURC {self.aurc:.4f}"

        self.random_line_, self.oracle_line_ = (
            self.ax_.plot(self.coverage, risk, color=color, zorder=1.5, **reference)[0]
            for risk, reference in zip(
                (np.full_like(self.risk, self.risk[-1]), self.oracle_risk),
                REFERENCES.values(),
                strict=True,
            )
        )
        (self.line_,) = self.ax_.plot(
            self.coverage,
            self.risk,
            **style,
            label=aurc if name is None else f"{name} ({aurc})",
        )
        self.band_ = None
        if self.band is not None:
            shade = {"color": color, "alpha": 0.2, "linewidth": 0, "gid": BAND}
            shade["label"] = band_label(None)
            self.band_ = self.ax_.fill_between(self.coverage, *self.band, **shade)
        self.point_ = None
        if self.operating_point is not None:
            (self.point_,) = self.ax_.plot(
                *self.operating_point, color=color, zorder=3, gid=POINT, **POINT_STYLE
            )
        self._arrange()
        return self

    def _arrange(self) -> None:
        """Adapt limits and legend to all curves on the axes."""
        from matplotlib.lines import Line2D

        lines = artists(self.ax_, LINE)
        highest = max(
            line.get_ydata()[line.get_xdata() >= FIRST_SHOWN].max() for line in lines
        )
        named, styles = named_lines(lines), dict(REFERENCES)
        if artists(self.ax_, POINT):
            styles["Operating point"] = {**POINT_STYLE, "markersize": 10}
        others = [Line2D([], [], color="0.3", **style) for style in styles.values()]
        shown = named + artists(self.ax_, BAND)[:1]
        labels = [line.get_label() for line in shown] + list(styles)
        handles, is_above = [*shown, *others], len(named) >= N_LEGEND_ABOVE
        location = ABOVE if is_above else {"loc": "upper left", "fontsize": "small"}
        self.ax_.legend(handles, labels, **location)
        # A legend inside must not cover the lines of the random order.
        height = LEGEND + (0 if is_above else LEGEND_ROW * len(labels))
        top = highest / max(1 - height, 0.5) or 1
        set_limits(self.ax_, x=(0, 1), y=(0, top))
        set_labels(self.ax_, xlabel="Coverage", ylabel=self.risk_name)


def _risk_at(coverage: Floats, mass: Floats, total_loss: Floats) -> Floats:
    """Return the risk at any coverage, averaged over the orders of ties."""
    reached, risk = curve(mass, total_loss)
    summed = np.append(0.0, reached * risk)
    return np.interp(coverage, np.append(0.0, reached), summed) / coverage


def _point_at(
    threshold: float | None, mass: Floats, total_loss: Floats, ranked: Floats
) -> tuple[float, float] | None:
    """Return coverage and risk of the samples at or above a threshold."""
    n_groups = 0 if threshold is None else np.count_nonzero(ranked >= threshold)
    if not n_groups:
        return None
    coverage, risk = curve(mass, total_loss)
    return float(coverage[n_groups - 1]), float(risk[n_groups - 1])
