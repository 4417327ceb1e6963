"""CORP reliability diagram, which is based on isotonic regression."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from sklearn_calib._numerics.bands import (
    CONSISTENCY,
    consistency_band,
    draw_calibrated,
    group_samples,
)
from sklearn_calib._numerics.binning import sums_by_value
from sklearn_calib._validation.declarations import INTERVAL, StrOptions, validate_params
from sklearn_calib._validation.types import Floats, Seed
from sklearn_calib.displays._base.from_predictions import (
    EVALUATED,
    confidence_and_correctness,
)
from sklearn_calib.displays._reliability.diagram import (
    ReliabilityDiagram,
    count_confidences,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


@dataclass(eq=False, repr=False)
class CorpReliabilityDisplay(ReliabilityDiagram):
    """CORP reliability diagram: isotonic regression instead of bins.

    The curve is the isotonic regression of the outcomes on the confidence. It has no
    bins or other settings to choose. At each confidence, the curve of a calibrated
    classifier is close to the diagonal, within the band; its whole curve is in the band
    with `interval="simultaneous"`.

    The legend shows the decomposition of the Brier score of the shown probability:
    miscalibration (MCB, lower is better), discrimination (DSC, higher is better) and
    uncertainty (UNC), which depends only on the fraction of positive outcomes.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create one. Several
    displays can share axes, with different colours and markers.

    Parameters
    ----------
    prob_pred : ndarray of shape (n_values,)
        Distinct confidences, in increasing order.

    prob_true : ndarray of shape (n_values,)
        Isotonic regression at each confidence.

    counts : ndarray of shape (n_values,)
        Number of samples, or sum of their weights, at each confidence.

    histogram : ndarray of shape (n_bins,) or None
        Number of samples, or sum of their weights, in bins of equal width. If None, no
        histogram is drawn.

    name : str, default=None
        Name of the classifier, shown in the legend.

    mode : {"top_label", "positive"}, default="top_label"
        Which probability is shown, as in :meth:`from_predictions`. It sets the axis
        labels.

    pos_label : label, default=None
        Label of the positive class, which the axis labels name, or the legend if there
        are curves of other classes on the axes. None for "top_label".

    band : ndarray of shape (2, n_values) or None, default=None
        Lower and upper end of the band at each confidence.

    interval : {"consistency", "simultaneous"} or None, default=None
        Kind of interval, as in :meth:`from_predictions`.

    confidence_level : float, default=0.95
        Confidence level of the band, shown in the legend.

    miscalibration, discrimination, uncertainty : float
        Parts of the Brier score, which is miscalibration - discrimination +
        uncertainty.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the reliability diagram.

    histogram_ax_ : matplotlib Axes or None
        Axes with the histogram of confidences.

    figure_ : matplotlib Figure
        Figure that contains both.

    line_ : matplotlib Line2D
        The curve, with markers at the ends of its steps.

    band_ : matplotlib PolyCollection or None
        The band; a LineCollection if there is only one distinct confidence.

    See Also
    --------
    ReliabilityDisplay : Reliability diagram with bins.
    sklearn_calib.metrics.proper_calibration_error : MCB, with
        `recalibration="isotonic"`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn_calib.displays import CorpReliabilityDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> nb = GaussianNB().fit(X[:300], y[:300])
    >>> display = CorpReliabilityDisplay.from_estimator(nb, X[300:], y[300:])
    >>> print(display.line_.get_label())
    GaussianNB
    MCB 0.010, DSC 0.013, UNC 0.032
    """

    prob_pred: np.ndarray
    prob_true: np.ndarray
    counts: np.ndarray
    _: KW_ONLY
    miscalibration: float
    discrimination: float
    uncertainty: float

    _scores = (
        ("MCB", "miscalibration"),
        ("DSC", "discrimination"),
        ("UNC", "uncertainty"),
    )
    _label = "{name}\n{scores}"

    @classmethod
    @validate_params(
        {**EVALUATED, **INTERVAL, "interval": [StrOptions(CONSISTENCY), None]}
    )
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        interval: str | None = "consistency",
        confidence_level: float = 0.95,
        n_resamples: int = 1000,
        random_state: Seed = None,
        mode: str | None = None,
        pos_label: Any = None,
        labels: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        r"""Draw the CORP reliability diagram of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels, of any type.

        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities. A 1-d array contains those of the positive class,
            which is the second of the two labels.

        interval : {"consistency", "simultaneous"} or None, default="consistency"
            Band to show. "consistency" is the range, around the diagonal, in which the
            curve of a calibrated classifier would lie at each confidence (pointwise).
            "simultaneous" is a wider band, in which its whole curve would lie.

        confidence_level : float, default=0.95
            Confidence level of the band, in (0, 1): at each confidence, or for the
            whole curve with `interval="simultaneous"`.

        n_resamples : int, default=1000
            Number of random draws from which the band is computed.

        random_state : int, RandomState instance or None, default=None
            Controls the random draws. Pass an int for reproducible results.

        mode : {"top_label", "positive", "confidence"}, default=None
            Which probability to show: that of the predicted class, or that of the
            positive class of a binary problem. By default, the predicted class for a
            2-d array and the positive class for a 1-d array. With "confidence",
            `y_proba` contains the confidence of each prediction, and `y_true` whether
            it is correct.

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

        name : str, default=None
            Name in the legend. By default, the legend shows only the parts of the
            score.

        ax : matplotlib Axes, default=None
            Axes to draw on; by default, those of a new figure. On the axes of an
            earlier display, both classifiers are shown.

        **plot_options
            Further arguments of :meth:`plot`: `color`, `histogram`.

        Returns
        -------
        display : CorpReliabilityDisplay
            The drawn display.

        Raises
        ------
        ValueError
            If the labels do not match the columns, `y_proba` does not contain
            probabilities, or `pos_label` is not one of two labels.

        Notes
        -----
        For confidences :math:`v_i` and outcomes :math:`y_i \in \{0, 1\}` with mean
        :math:`\bar y`, where :math:`y_i = 1` is a correct prediction, and the isotonic
        regression :math:`f` ([1]_, eq. 2),

        .. math:: \mathrm{MCB} = \overline{(y - v)^2} - \overline{(y - f(v))^2}, \quad
            \mathrm{DSC} = \overline{(y - \bar y)^2} - \overline{(y - f(v))^2}, \quad
            \mathrm{UNC} = \overline{(y - \bar y)^2}.

        For the band, the confidences are fixed, outcomes are drawn from them, and a
        curve is fitted to each draw. The ends are quantiles of these curves; those of
        "simultaneous" have a smaller tail, the same at all confidences, for which at
        most the fraction `1 - confidence_level` of the curves leaves the band. If the
        draws are too few for that, the band is extrapolated; this is less precise, so
        do not use fewer than 1000 draws. Confidences are grouped in cells of width
        1/4096 for the draws. Between two confidences, the curve is interpolated
        linearly.

        References
        ----------
        .. [1] T. Dimitriadis, T. Gneiting and A. I. Jordan, "Stable Reliability
           Diagrams for Probabilistic Classifiers", PNAS 118, 2021.

        Examples
        --------
        >>> from sklearn_calib.displays import CorpReliabilityDisplay
        >>> display = CorpReliabilityDisplay.from_predictions(
        ...     [0, 1, 0, 1], [0.2, 0.4, 0.6, 0.9], name="a guess"
        ... )
        >>> display.prob_true
        array([0. , 0.5, 0.5, 1. ])
        """
        mode, pos_label, (confidence, correct, weight) = confidence_and_correctness(
            y_true, y_proba, mode, pos_label, labels, sample_weight
        )
        weight = np.ones(len(correct)) if weight is None else weight
        value, mass, n_correct = sums_by_value(
            confidence.astype(np.float64), correct, weight
        )
        curve = isotonic_regression(n_correct / mass, weights=mass).x
        band = None
        if interval is not None:
            groups = group_samples(confidence, correct, weight)
            draws = draw_calibrated(groups, n_resamples, random_state) / groups.mass
            fits = [isotonic_regression(draw, weights=groups.mass).x for draw in draws]
            ends = consistency_band(np.array(fits), interval, confidence_level)
            band = np.array([np.interp(value, groups.place, end) for end in ends])
        display = cls(
            value,
            curve,
            mass,
            histogram=count_confidences(confidence, correct, weight),
            **_parts(value, curve, mass, n_correct),
            name=name,
            mode=mode,
            pos_label=pos_label,
            band=band,
            interval=interval,
            confidence_level=confidence_level,
        )
        return display.plot(ax, **plot_options)

    def _draw(self, color: Any, **style: Any) -> Line2D:
        """Draw the curve, with markers at the ends of its steps."""
        is_end = np.diff(self.prob_true, prepend=np.nan, append=np.nan) != 0
        ends = np.flatnonzero(is_end[:-1] | is_end[1:]).tolist()
        return self._draw_curve(color, markevery=ends, **style)


def _parts(
    value: Floats, curve: Floats, mass: Floats, n_correct: Floats
) -> dict[str, float]:
    """Return the parts of the Brier score from sums over distinct confidences."""
    frequency, n_correct = mass / mass.sum(), n_correct / mass.sum()
    mean = n_correct.sum()
    # For any function f of the confidence, mean((y - f)^2) = mean(y) - mean(2 y f -
    # f^2).
    gain = {
        name: (2 * n_correct * each - frequency * each**2).sum()
        for name, each in (("value", value), ("curve", curve))
    }
    return {
        "miscalibration": float(max(0, gain["curve"] - gain["value"])),
        "discrimination": float(max(0, gain["curve"] - mean**2)),
        "uncertainty": float(mean * (1 - mean)),
    }
