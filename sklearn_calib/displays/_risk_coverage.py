"""The risk-coverage curve, with the best and the average order of the same samples."""

import numpy as np

from sklearn_calib._core.risk_coverage import (
    ESTIMATORS,
    LOSS,
    RANKING,
    curve,
    group_by_confidence,
    score_samples,
)
from sklearn_calib._core.validation import validate_params
from sklearn_calib.displays._axes import STYLES, artists, new_axes
from sklearn_calib.displays._predictions import FromEstimator

LINE = "risk-coverage line"
RISKS = {"zero_one": "Risk (error rate)", "log": "Risk (mean log loss)"}
# Shares of the samples at which the curves are drawn.
COVERAGE = np.linspace(0, 1, 1001)[1:]
# The risk of fewer samples is that of a handful, and would set the scale of the axis.
FIRST_SHOWN = 0.02
# Parts of the height that the legend takes, in itself and for each row.
LEGEND, LEGEND_ROW = 0.06, 0.05
# What is beside the curve of a classifier, in its colour.
REFERENCES = {
    "Random order": {"linestyle": (0, (7, 4)), "linewidth": 1, "alpha": 0.8},
    "Oracle": {"linestyle": ":", "linewidth": 1.5, "alpha": 0.9},
}


class RiskCoverageDisplay(FromEstimator):
    """Risk-coverage curve: how wrong a classifier is where it is sure enough to answer.

    The samples are answered in the order of decreasing confidence; the curve shows the
    mean loss of the answered ones for every share of them. Low is good. Beside it stand
    two curves of the same predictions in other orders: the oracle answers the samples
    of least loss first, and no confidence can do better; a random order has the same
    risk everywhere. Both are in the colour of their classifier, for they depend on how
    often it is right.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create one. Several on one
    axes are told apart by colours and markers.

    Parameters
    ----------
    coverage : ndarray of shape (n_points,)
        Shares of the samples, increasing, in (0, 1].

    risk : ndarray of shape (n_points,)
        Mean loss of the most confident samples, at each coverage. The last one is the
        risk of a random order at every coverage.

    oracle_risk : ndarray of shape (n_points,)
        Mean loss of the samples of least loss, at each coverage.

    aurc : float
        Area under the risk-coverage curve, which is shown in the legend.

    name : str, default=None
        Name of the classifier, which is shown in the legend.

    risk_name : str, default="Risk"
        What stands on the vertical axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the curves.

    figure_ : matplotlib Figure
        Figure that contains them.

    line_ : matplotlib Line2D
        The curve of the classifier.

    oracle_line_ : matplotlib Line2D
        The curve of the perfect order.

    random_line_ : matplotlib Line2D
        The level of a random order.

    See Also
    --------
    sklearn_calib.metrics.aurc_loss : The number in the legend.
    sklearn_calib.metrics.excess_aurc_loss : About the area between curve and oracle.

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

    def __init__(
        self, coverage, risk, *, oracle_risk, aurc, name=None, risk_name="Risk"
    ):
        self.coverage = coverage
        self.risk = risk
        self.oracle_risk = oracle_risk
        self.aurc = aurc
        self.name = name
        self.risk_name = risk_name

    @classmethod
    @validate_params({**RANKING, **LOSS}, prefer_skip_nested_validation=True)
    def from_predictions(
        cls,
        y_true,
        y_proba,
        *,
        confidence="msp",
        loss="zero_one",
        labels=None,
        sample_weight=None,
        name=None,
        ax=None,
        **plot_options,
    ):
        """Draw the risk-coverage curve of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels, of any kind.

        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities. A 1-d array holds those of the positive class.

        confidence : str, callable or array-like of shape (n_samples,), default="msp"
            What the samples are ranked by, as in
            :func:`sklearn_calib.metrics.risk_coverage_curve`.

        loss : {"zero_one", "log"} or callable, default="zero_one"
            What the risk is the mean of, as in
            :func:`sklearn_calib.metrics.risk_coverage_curve`.

        labels : array-like of shape (n_classes,), default=None
            The label of each column, by default the sorted distinct values of `y_true`.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples. Their scale matters for the area only, as in
            :func:`sklearn_calib.metrics.aurc_loss`.

        name : str, default=None
            Name in the legend. By default the legend shows the area only.

        ax : matplotlib Axes, default=None
            Axes to draw on; new ones by default. Those of an earlier display show both
            classifiers.

        **plot_options
            Further arguments of :meth:`plot`: `color`.

        Returns
        -------
        display : RiskCoverageDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If the labels do not match the columns, or `y_proba` holds anything but
            probabilities, or the confidence is unknown or NaN.

        Notes
        -----
        Among samples of equal confidence the curve shows the mean over their orders, as
        the area in the legend does.

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
            y_true, y_proba, confidence, loss, labels, sample_weight
        )
        mass, total_loss, _ = group_by_confidence(scores, losses, weight)
        oracle = group_by_confidence(-losses, losses, weight)
        display = cls(
            coverage=COVERAGE,
            risk=_risk_at(COVERAGE, mass, total_loss),
            oracle_risk=_risk_at(COVERAGE, *oracle[:2]),
            aurc=ESTIMATORS["mean"](mass, total_loss),
            name=name,
            risk_name="Risk (mean loss)" if callable(loss) else RISKS[loss],
        )
        return display.plot(ax, **plot_options)

    def plot(self, ax=None, *, name=None, color=None):
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; new ones by default. Those of an earlier display show both
            classifiers.

        name : str, default=None
            Name in the legend; by default the one given to the constructor.

        color : matplotlib color, default=None
            Color of this classifier; by default the next one of a palette that
            colour-blind readers can tell apart.

        Returns
        -------
        display : RiskCoverageDisplay
            The object itself, with the artists as attributes.

        Notes
        -----
        The vertical axis fits the risk at a coverage of 0.02 or more: that of fewer
        samples, which may be as high as 1, can lie outside.
        """
        self.ax_ = new_axes((5.6, 4.4)) if ax is None else ax
        self.figure_ = self.ax_.figure
        n_earlier = len(artists(self.ax_, LINE))
        palette_color, marker = STYLES[n_earlier % len(STYLES)]
        color = palette_color if color is None else color
        name = self.name if name is None else name
        aurc = f"AURC {self.aurc:.4f}"

        self.random_line_, self.oracle_line_ = (
            self.ax_.plot(self.coverage, risk, color=color, zorder=1.5, **style)[0]
            for risk, style in zip(
                (np.full_like(self.risk, self.risk[-1]), self.oracle_risk),
                REFERENCES.values(),
                strict=True,
            )
        )
        (self.line_,) = self.ax_.plot(
            self.coverage,
            self.risk,
            color=color,
            marker=marker,
            # Apart from those of earlier curves, which may run under this one.
            markevery=((0.1 + 0.03 * n_earlier) % 0.15, 0.15),
            markersize=5,
            label=aurc if name is None else f"{name} ({aurc})",
            gid=LINE,
        )
        self._decorate()
        return self

    def _decorate(self):
        """Fit the axes and the legend to all curves on them."""
        from matplotlib.lines import Line2D

        lines = artists(self.ax_, LINE)
        highest = max(
            line.get_ydata()[line.get_xdata() >= FIRST_SHOWN].max() for line in lines
        )
        others = [Line2D([], [], color="0.3", **style) for style in REFERENCES.values()]
        labels = [line.get_label() for line in lines] + list(REFERENCES)
        self.ax_.legend([*lines, *others], labels, loc="upper left", fontsize="small")
        # The lines of a random order run under it.
        below_legend = 1 - LEGEND - LEGEND_ROW * len(labels)
        top = highest / max(below_legend, 0.5) or 1
        self.ax_.set(
            xlim=(0, 1), ylim=(0, top), xlabel="Coverage", ylabel=self.risk_name
        )


def _risk_at(coverage, mass, total_loss):
    """Return the risk at any coverage, as the mean over the orders of ties."""
    reached, risk = curve(mass, total_loss)
    summed = np.append(0.0, reached * risk)
    return np.interp(coverage, np.append(0.0, reached), summed) / coverage
