"""The reliability diagram by isotonic regression, where there is nothing to choose."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from sklearn_calib._core.binning import sums_by_value
from sklearn_calib._core.typing import Floats, Seed
from sklearn_calib._core.validation import StrOptions, validate_params
from sklearn_calib.displays._bands import (
    BANDS,
    draw_calibrated,
    group_samples,
    pointwise_band,
)
from sklearn_calib.displays._diagram import ReliabilityDiagram, count_confidences
from sklearn_calib.displays._predictions import JUDGED, judge

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class CorpReliabilityDisplay(ReliabilityDiagram):
    """Reliability diagram by isotonic regression: consistent, and without bins.

    The curve is the increasing function of the confidence that fits best what came
    true, by which CORP replaces bins. A calibrated classifier's follows the diagonal
    within the band. The legend parts the Brier score of the probability shown into
    miscalibration (MCB, good is low), discrimination (DSC, good is high) and the
    uncertainty of what came true (UNC, which no classifier can change).

    Use :meth:`from_estimator` or :meth:`from_predictions` to create one. Several on the
    same axes are told apart by colours and markers.

    Parameters
    ----------
    prob_pred : ndarray of shape (n_values,)
        The distinct confidences, increasing.

    prob_true : ndarray of shape (n_values,)
        Value of the isotonic regression at each, not decreasing.

    counts : ndarray of shape (n_values,)
        Number of samples, or sum of their weights, of each.

    histogram : ndarray of shape (n_bins,) or None
        Number of samples in bins of equal width, which the histogram shows. Without it
        there is none.

    name : str, default=None
        Name of the classifier, which is shown in the legend.

    mode : {"top_label", "positive"}, default="top_label"
        What the probabilities are of: it chooses the words on the axes.

    band : ndarray of shape (2, n_values) or None, default=None
        Lower and upper ends of the band at each distinct confidence.

    interval : {"consistency"} or None, default=None
        What the band is, as in :meth:`from_predictions`.

    confidence_level : float, default=0.95
        Level of the band, which is shown in the legend.

    miscalibration, discrimination, uncertainty : float
        Parts of the Brier score, which is the first minus the second plus the third.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the reliability diagram.

    histogram_ax_ : matplotlib Axes or None
        Axes with the histogram of confidences.

    figure_ : matplotlib Figure
        Figure that contains both.

    line_ : matplotlib Line2D
        The curve; its markers are at the ends of the steps.

    band_ : matplotlib PolyCollection or None
        The band; of a single confidence a LineCollection.

    See Also
    --------
    ReliabilityDisplay : The same with bins.
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
        {**JUDGED, **BANDS, "interval": [StrOptions({"consistency"}), None]},
        prefer_skip_nested_validation=True,
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
        r"""Draw the diagram of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels, of any kind.

        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities. A 1-d array holds those of the positive class,
            which is the second of two labels.

        interval : {"consistency"} or None, default="consistency"
            Whether to show where the curve of a calibrated classifier would be, at each
            confidence by itself.

        confidence_level : float, default=0.95
            Level of the band at each confidence, in (0, 1).

        n_resamples : int, default=1000
            Number of random draws for the band.

        random_state : int, RandomState instance or None, default=None
            Controls the draws. Pass an int for a repeatable band.

        mode : {"top_label", "positive"}, default=None
            What is drawn: the probability of the predicted class, or of the positive
            class of two. By default the predicted class for a matrix, and the positive
            class for a 1-d array.

        pos_label : label, default=None
            The positive class of two, which sets the mode to "positive". A 1-d array
            holds its probabilities. By default the second label.

        labels : array-like of shape (n_classes,), default=None
            The label of each column, such as `estimator.classes_`. By default the
            sorted distinct values of `y_true`, which must then hold every class.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples. The band is that of the effective number of samples,
            as in :meth:`ReliabilityDisplay.from_predictions`.

        name : str, default=None
            Name in the legend. By default the legend shows the parts of the score only.

        ax : matplotlib Axes, default=None
            Axes to draw on; new ones by default. Axes that an earlier display was
            drawn on show both classifiers.

        **plot_options
            Further arguments of :meth:`plot`: `color`, `histogram`.

        Returns
        -------
        display : CorpReliabilityDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If the labels do not match the columns, or `y_proba` holds anything but
            probabilities, or `pos_label` is none of two labels.

        Notes
        -----
        With the confidences :math:`v_i`, of which :math:`y_i \in \{0, 1\}` came true,
        the isotonic regression :math:`f` and the mean :math:`\bar y` ([1]_, eq. 2),

        .. math:: \mathrm{MCB} = \overline{(y - v)^2} - \overline{(y - f(v))^2}, \quad
            \mathrm{DSC} = \overline{(y - \bar y)^2} - \overline{(y - f(v))^2}, \quad
            \mathrm{UNC} = \overline{(y - \bar y)^2}.

        For the band hits are drawn from the confidences, which are kept as they are,
        and a curve is fitted to each draw. Confidences within 1/4096 of each other are
        drawn for as equal ones. Between two confidences the curve is interpolated.

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
        mode, judged = judge(y_true, y_proba, mode, pos_label, labels, sample_weight)
        confidence, hit, weight = judged
        weight = np.ones(len(hit)) if weight is None else weight
        value, mass, hits = sums_by_value(confidence.astype(np.float64), hit, weight)
        curve = isotonic_regression(hits / mass, weights=mass).x
        band = None
        if interval is not None:
            groups = group_samples(confidence, hit, weight)
            draws = draw_calibrated(groups, n_resamples, random_state) / groups.mass
            fits = [isotonic_regression(each, weights=groups.mass).x for each in draws]
            ends = pointwise_band(np.array(fits), confidence_level)
            band = np.array([np.interp(value, groups.place, end) for end in ends])
        display = cls(
            value,
            curve,
            mass,
            histogram=count_confidences(confidence, hit, weight),
            **_parts(value, curve, mass, hits),
            name=name,
            mode=mode,
            band=band,
            interval=interval,
            confidence_level=confidence_level,
        )
        return display.plot(ax, **plot_options)

    def _draw(self, color: Any, **style: Any) -> None:
        """Draw the curve, with markers at the ends of its steps."""
        is_end = np.diff(self.prob_true, prepend=np.nan, append=np.nan) != 0
        ends = np.flatnonzero(is_end[:-1] | is_end[1:]).tolist()
        self._draw_curve(color, markevery=ends, **style)


def _parts(
    value: Floats, curve: Floats, mass: Floats, hits: Floats
) -> dict[str, float]:
    """Return the parts of the Brier score, given sums over distinct confidences."""
    share, hits = mass / mass.sum(), hits / mass.sum()
    mean = hits.sum()
    # With f for any function of the values, the mean of (y - f)^2 is that of y less it.
    gain = {
        name: (2 * hits * each - share * each**2).sum()
        for name, each in (("value", value), ("curve", curve))
    }
    return {
        "miscalibration": float(max(0, gain["curve"] - gain["value"])),
        "discrimination": float(max(0, gain["curve"] - mean**2)),
        "uncertainty": float(mean * (1 - mean)),
    }
