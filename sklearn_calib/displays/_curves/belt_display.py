"""Calibration belt (GiViTI): confidence region of a polynomial calibration curve."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from sklearn_calib._solvers.belt_polynomials import (
    FIRST,
    UNDEFINED,
    belt,
    belt_sample,
    select_polynomial,
)
from sklearn_calib._validation.arrays import as_numbers, shown
from sklearn_calib._validation.declarations import (
    BETWEEN_0_AND_1,
    Interval,
    StrOptions,
    validate_params,
)
from sklearn_calib._validation.types import Array, Floats
from sklearn_calib.displays._base.axes import (
    ABOVE,
    artists,
    axes_or_new,
    curve_style,
    draw_diagonal,
    mark_class,
    named_classes,
    set_labels,
    set_limits,
)
from sklearn_calib.displays._base.from_predictions import (
    EVALUATED,
    FromEstimator,
    confidence_and_correctness,
)
from sklearn_calib.displays._reliability.diagram import DIAGONAL, WORDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE, BAND = "calibration curve", "calibration belt"
# Points of the curve with equally spaced probabilities, and with equally spaced
# log-odds.
N_POINTS = 60


@dataclass(eq=False, repr=False)
class CalibrationBeltDisplay(FromEstimator):
    """Calibration belt (GiViTI): confidence region of the calibration curve.

    The curve is a logistic regression of the outcome on a polynomial in the predicted
    log-odds. The belt contains all such polynomials that a likelihood ratio test does
    not reject at a confidence level. Where it does not contain the diagonal, the
    probabilities are too low (belt above the diagonal) or too high (below). The legend
    shows the p-value of the test of calibration.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create one. Several
    displays can share axes, with different colours and markers.

    Parameters
    ----------
    prob_pred : ndarray of shape (n_points,)
        Predicted probabilities, from the smallest to the largest that is not ignored.

    prob_true : ndarray of shape (n_points,)
        Calibration curve at these probabilities.

    belts : ndarray of shape (n_levels, 2, n_points)
        Lower and upper end of the belt of each confidence level.

    confidence_levels : ndarray of shape (n_levels,)
        Confidence levels, in increasing order.

    pvalue : float
        p-value of the test of calibration.

    degree : int
        Degree of the polynomial.

    mode : {"positive", "top_label"}, default="positive"
        Which probability is shown, as in :meth:`from_predictions`. It sets the axis
        labels.

    pos_label : label, default=None
        Label of the positive class, which the axis label names, or the legend if there
        are curves of other classes on the axes. None for "top_label".

    name : str, default=None
        Name of the classifier, shown in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the belt.

    figure_ : matplotlib Figure
        Figure that contains the axes.

    line_ : matplotlib Line2D
        Calibration curve.

    belts_ : list of matplotlib PolyCollection
        Belts, in the order of the confidence levels.

    See Also
    --------
    sklearn_calib.metrics.calibration_belt_test : The test in the legend.
    SmoothReliabilityDisplay : Calibration curve by kernel regression.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn_calib.displays import CalibrationBeltDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> nb = GaussianNB().fit(X[:300, :2], y[:300])
    >>> display = CalibrationBeltDisplay.from_estimator(nb, X[300:, :2], y[300:])
    >>> display.degree
    1
    """

    _values = ("prob_true",)

    prob_pred: Floats
    prob_true: Floats
    belts: Floats
    confidence_levels: Floats
    _: KW_ONLY
    pvalue: float
    degree: int
    mode: str = "positive"
    pos_label: Any = None
    name: str | None = None

    @classmethod
    @validate_params(
        {
            **EVALUATED,
            "confidence_levels": ["array-like"],
            "validation": [StrOptions({*FIRST})],
            "max_degree": [Interval(Integral, 2, 4, closed="both")],
            "significance_level": BETWEEN_0_AND_1,
        }
    )
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        confidence_levels: ArrayLike = (0.8, 0.95),
        validation: str = "external",
        max_degree: int = 4,
        significance_level: float = 0.05,
        mode: str | None = None,
        pos_label: Any = None,
        labels: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw the calibration belt of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels, of any type.

        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities. A 1-d array contains those of the positive class,
            which is the second of the two labels.

        confidence_levels : array-like of shape (n_levels,), default=(0.8, 0.95)
            Confidence levels of the belts, in (0, 1).

        validation : {"external", "internal"}, default="external"
            Whether the data are independent of the training data, or are the training
            data of a logistic regression without penalty, as in
            :func:`~sklearn_calib.metrics.calibration_belt_test`.

        max_degree : int, default=4
            Largest degree of the polynomial, from 2 to 4.

        significance_level : float, default=0.05
            Significance level at which the degree is increased, in (0, 1).

        mode : {"positive", "top_label", "confidence"}, default=None
            Which probability to show: that of the positive class of a binary problem,
            or that of the predicted class. By default, "positive" for two classes and
            "top_label" for more. With "confidence", `y_proba` contains the confidence
            of each prediction, and `y_true` whether it is correct.

        pos_label : label, default=None
            Label of the positive class of a binary problem. It sets the mode to
            "positive"; a 1-d array contains the probabilities of this class. By
            default, the second label.

        labels : array-like of shape (n_classes,), default=None
            Class label of each column, such as `estimator.classes_`. By default, the
            sorted distinct values of `y_true`, which must then contain every class.

        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights. The belt is computed from the effective number of samples.

        name : str, default=None
            Name in the legend. By default, the legend shows only the p-value.

        ax : matplotlib Axes, default=None
            Axes to draw on; by default, those of a new figure. On the axes of an
            earlier display, both classifiers are shown.

        **plot_options
            Further arguments of :meth:`plot`: `color`.

        Returns
        -------
        display : CalibrationBeltDisplay
            The drawn display.

        Raises
        ------
        ValueError
            If the labels do not match the columns, `y_proba` does not contain
            probabilities, a confidence level is not in (0, 1), `pos_label` is not one
            of two labels, or the regression has no estimate, as for probabilities that
            separate the outcomes.

        Notes
        -----
        For one of several classes, pass `y_true == label` and the column of the class.

        The belt is the range, at each probability, of the polynomials with a
        log-likelihood within half of a quantile of its maximum: the quantile of the
        statistic of the test, given the degree [1]_. For calibrated predictions, the
        belt contains the whole diagonal with a probability of at least the confidence
        level. Correct predictions with the probability 0 or 1 are ignored. More than
        2048 distinct probabilities are grouped for the belt in as many cells of the
        log-odds.

        References
        ----------
        .. [1] G. Nattino, S. Finazzi, G. Bertolini, C. Rossi and G. Carrara, "givitiR:
           The GiViTI Calibration Test and Belt", R package version 1.3, 2017.

        Examples
        --------
        >>> from sklearn_calib.displays import CalibrationBeltDisplay
        >>> display = CalibrationBeltDisplay.from_predictions(
        ...     [0, 1, 0, 1], [0.2, 0.4, 0.6, 0.9], name="a guess"
        ... )
        >>> display.line_.get_label()
        'a guess (p = 0.99)'
        """
        levels = _check_levels(confidence_levels)
        mode, pos_label, (value, outcome, weight) = confidence_and_correctness(
            y_true, y_proba, mode, pos_label, labels, sample_weight, of_two="positive"
        )
        sample = belt_sample(value, outcome, weight)
        selected = select_polynomial(sample, validation, max_degree, significance_level)
        if selected is None:
            raise ValueError(
                "y_true and y_proba must contain both outcomes at overlapping "
                f"probabilities, got data in which {UNDEFINED}. Use "
                "ReliabilityDisplay for such data."
            )
        log_odds = _points(sample.log_odds)
        display = cls(
            expit(log_odds),
            expit(selected.polynomial(log_odds)),
            np.array([expit(belt(sample, selected, log_odds, p)) for p in levels]),
            levels,
            pvalue=selected.pvalue,
            degree=selected.polynomial.degree,
            mode=mode,
            pos_label=pos_label,
            name=name,
        )
        return display.plot(ax, **plot_options)

    def _columns(self) -> dict[str, Array]:
        """Return the curve, and the ends of the belt of each level."""
        columns = {"prob_pred": self.prob_pred, "prob_true": self.prob_true}
        for level, (low, high) in zip(self.confidence_levels, self.belts, strict=True):
            columns |= {f"low_{level:g}": low, f"high_{level:g}": high}
        return columns

    def plot(
        self, ax: Axes | None = None, *, name: str | None = None, color: Any = None
    ) -> Self:
        """Draw the curve and the belts.

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
        display : CalibrationBeltDisplay
            The object itself, with the artists as attributes.
        """
        self.ax_ = axes_or_new(ax, (5, 5))
        self.figure_ = self.ax_.figure
        style = curve_style(self.ax_, LINE, color)
        name = self.name if name is None else name
        pvalue = "p < 0.001" if self.pvalue < 0.001 else f"p = {self.pvalue:.2g}"
        (self.line_,) = self.ax_.plot(
            self.prob_pred,
            self.prob_true,
            **style,
            label=pvalue if name is None else f"{name} ({pvalue})",
        )
        mark_class(self.line_, self.pos_label)
        shade = {"color": style["color"], "linewidth": 0, "gid": BAND}
        alphas = np.linspace(0.3, 0.12, len(self.confidence_levels))
        self.belts_ = [
            self.ax_.fill_between(
                self.prob_pred,
                *ends,
                **shade,
                alpha=alpha,
                label=f"{100 * level:g} % belt",
            )
            for level, ends, alpha in zip(
                self.confidence_levels, self.belts, alphas, strict=True
            )
        ]
        self._decorate()
        return self

    def _decorate(self) -> None:
        """Adapt legend and limits to all belts on the axes."""
        ax = self.ax_
        if not artists(ax, DIAGONAL):
            draw_diagonal(ax, DIAGONAL)
            if ax.get_xscale() == ax.get_yscale():
                ax.set_aspect("equal")
        of_class, labels = named_classes(artists(ax, LINE))
        handles = [*artists(ax, LINE), *self.belts_, *artists(ax, DIAGONAL)]
        labels += [str(belt.get_label()) for belt in self.belts_]
        ax.legend(handles, [*labels, "Calibrated"], ncols=2, columnspacing=1, **ABOVE)
        xlabel, ylabel, _ = WORDS[self.mode]
        set_labels(ax, xlabel=xlabel + of_class, ylabel=ylabel)
        set_limits(ax, x=(0, 1), y=(0, 1))


def _check_levels(confidence_levels: Any) -> Floats:
    """Return the sorted distinct confidence levels."""
    levels = as_numbers(confidence_levels, "confidence_levels")
    is_inside = (levels > 0) & (levels < 1)
    if levels.ndim != 1 or not levels.size or not is_inside.all():
        raise ValueError(
            "confidence_levels must be a 1-d array of numbers in (0, 1), got "
            f"{shown(confidence_levels)}. Pass a list, such as [0.95]."
        )
    return np.unique(levels.astype(np.float64))


def _points(log_odds: Floats) -> Floats:
    """Return log-odds, half of them equally spaced on each of two scales."""
    low, high = log_odds.min(), log_odds.max()
    equal = np.linspace(expit(low), expit(high), N_POINTS)[1:-1]
    inside = equal[(equal > 0) & (equal < 1)]
    return np.unique(np.r_[np.linspace(low, high, N_POINTS), logit(inside)])
