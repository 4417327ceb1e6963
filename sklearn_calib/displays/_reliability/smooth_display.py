"""Smooth reliability diagram: kernel regression with the bandwidth of smECE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._numerics.bands import (
    CONSISTENCY,
    Groups,
    consistency_band,
    draw_bootstrap,
    draw_calibrated,
    group_samples,
)
from sklearn_calib._numerics.heat_kernel import (
    cosine_coefficients,
    self_consistent_bandwidth,
)
from sklearn_calib._validation.declarations import (
    CLUSTERS,
    INTERVAL,
    StrOptions,
    validate_params,
)
from sklearn_calib._validation.types import Array, Floats, Ints, Seed, Weights
from sklearn_calib.displays._base.from_cv_results import FoldFields, FromCVResults
from sklearn_calib.displays._base.from_predictions import (
    EVALUATED,
    confidence_and_correctness,
    read_clusters_of_band,
)
from sklearn_calib.displays._reliability.diagram import (
    ReliabilityDiagram,
    count_confidences,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

INTERVALS = {"bootstrap", *CONSISTENCY}
# Largest width of the line, as a multiple of that of other lines.
WIDEST = 4.5

# Number of points of the curve.
N_POINTS = 401
# The curve is not drawn where the kernel weights of the samples sum to less than this.
LEAST_SEEN = 0.5


@dataclass(eq=False, repr=False)
class SmoothReliabilityDisplay(ReliabilityDiagram, FromCVResults):
    """Smooth reliability diagram: kernel regression instead of bins, with smECE.

    The curve is the diagonal plus a kernel regression of the calibration residuals
    (outcome minus confidence) on the confidence. The bandwidth is that of the smooth
    expected calibration error (smECE), which is chosen from the data. Where there are
    more samples, the line is thicker. The curve of a calibrated classifier is close to
    the diagonal.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create one. Several
    displays can share axes, with different colours and markers.

    Parameters
    ----------
    prob_pred : ndarray of shape (n_points,)
        Equally spaced confidences from 0 to 1.

    prob_true : ndarray of shape (n_points,)
        The curve at these confidences; nan where there are almost no samples.

    density : ndarray of shape (n_points,)
        Kernel density estimate of the confidences, with the same kernel.

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

    band : ndarray of shape (2, n_points) or None, default=None
        Lower and upper end of the band at each point.

    interval : {"bootstrap", "consistency", "simultaneous"} or None, default=None
        Kind of interval, as in :meth:`from_predictions`.

    confidence_level : float or None, default=0.95
        Confidence level of the band, shown in the legend. None means that the band is
        one standard deviation of several folds.

    means : tuple of two floats
        Accuracy and mean confidence over all samples.

    smece : float
        Smooth expected calibration error (smECE), shown in the legend. It is also the
        bandwidth of the kernel.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the reliability diagram.

    histogram_ax_ : matplotlib Axes or None
        Axes with the histogram of confidences.

    figure_ : matplotlib Figure
        Figure that contains both.

    line_ : matplotlib Line2D
        The curve.

    density_ : matplotlib PolyCollection
        The curve again, with the line width showing the density.

    band_ : matplotlib PolyCollection or None
        The band.

    See Also
    --------
    ReliabilityDisplay : Reliability diagram with bins.
    sklearn_calib.metrics.smooth_expected_calibration_error : The error in the legend.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn_calib.displays import SmoothReliabilityDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> nb = GaussianNB().fit(X[:300], y[:300])
    >>> display = SmoothReliabilityDisplay.from_estimator(nb, X[300:], y[300:])
    >>> display.line_.get_label()
    'GaussianNB (smECE 0.030)'
    """

    prob_pred: np.ndarray
    prob_true: np.ndarray
    density: np.ndarray
    _: KW_ONLY
    means: tuple[float, float]
    smece: float

    _scores = (("smECE", "smece"),)
    _points = ("prob_pred", "prob_true", "density")
    _fold_options = {"interval": None}
    _fold_fields = FoldFields(
        curve="prob_true",
        shared="prob_pred",
        averaged=("prob_true",),
        summed=("histogram",),
        pooled=("density", "means"),
        weight=lambda fold: fold.density * fold.histogram.sum(),
    )

    @classmethod
    @validate_params(
        {
            **EVALUATED,
            **CLUSTERS,
            **INTERVAL,
            "interval": [StrOptions(INTERVALS), None],
        }
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
        clusters: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        r"""Draw the smooth reliability diagram of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels, of any type.

        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities. A 1-d array contains those of the positive class,
            which is the second of the two labels.

        interval : str or None, default="consistency"
            Band to show: "consistency", "simultaneous" or "bootstrap". "consistency" is
            the range, around the diagonal, in which the curve of a calibrated
            classifier would lie at each point (pointwise). "simultaneous" is a wider
            band, in which its whole curve would lie. "bootstrap" is the range, around
            the curve, of the curves of samples drawn with replacement, at each point.

        confidence_level : float, default=0.95
            Confidence level of the band, in (0, 1): at each point, or for the whole
            curve with `interval="simultaneous"`.

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

        clusters : array-like of shape (n_samples,), default=None
            Cluster of each sample, such as the patient, if the samples of a cluster are
            not independent. With `interval="bootstrap"`, whole clusters are drawn; the
            other bands are not available. By default, all samples are independent.

        name : str, default=None
            Name in the legend. By default, the legend shows only the error.

        ax : matplotlib Axes, default=None
            Axes to draw on; by default, those of a new figure. On the axes of an
            earlier display, both classifiers are shown.

        **plot_options
            Further arguments of :meth:`plot`: `color`, `histogram`.

        Returns
        -------
        display : SmoothReliabilityDisplay
            The drawn display.

        Raises
        ------
        ValueError
            If the labels do not match the columns, `y_proba` does not contain
            probabilities, or `pos_label` is not one of two labels.

        Notes
        -----
        For confidences :math:`v_i` and outcomes :math:`y_i \in \{0, 1\}`, where
        :math:`y_i = 1` is a correct prediction, and the Gaussian kernel :math:`K` with
        the bandwidth of smECE, reflected at 0 and 1, the curve is [1]_

        .. math:: t + \frac{\sum_i K(t, v_i) (y_i - v_i)}{\sum_i K(t, v_i)}.

        smECE is the mean distance of the curve from the diagonal, weighted by the
        density. A direct regression of :math:`y` would be biased near 0 and 1, even for
        a calibrated classifier. There, the curve may exceed the unit interval by up to
        the bandwidth. It is not drawn where the kernel weights of the samples sum to
        less than 0.5.

        All random draws use the same bandwidth. The ends of the band are quantiles of
        the drawn curves; those of "simultaneous" have a smaller tail, the same at all
        points, for which at most the fraction `1 - confidence_level` of the curves
        leaves the band; it is extrapolated if the draws are too few for that. The
        bootstrap band is too narrow for few samples: with 60 samples, the 95 % band
        contains the diagonal of a calibrated classifier at 86 % of the points. For the
        draws, confidences are
        grouped in cells of width 1/4096.

        References
        ----------
        .. [1] J. Błasiok and P. Nakkiran, "Smooth ECE: Principled Reliability Diagrams
           via Kernel Smoothing", ICLR 2024.

        Examples
        --------
        >>> from sklearn_calib.displays import SmoothReliabilityDisplay
        >>> display = SmoothReliabilityDisplay.from_predictions(
        ...     [0, 1, 1, 1], [0.2, 0.4, 0.6, 0.9], name="a guess", random_state=0
        ... )
        >>> display.line_.get_label()
        'a guess (smECE 0.225)'
        """
        mode, pos_label, (confidence, correct, weight) = confidence_and_correctness(
            y_true, y_proba, mode, pos_label, labels, sample_weight
        )
        clusters = read_clusters_of_band(
            clusters, len(correct), weight, interval, "bootstrap"
        )
        weight = np.ones(len(correct)) if weight is None else weight
        gaps = cosine_coefficients(confidence, weight * (correct - confidence))
        smece = self_consistent_bandwidth(gaps / weight.sum())
        density, curve, band = kernel_regression(
            (confidence, correct, weight),
            smece,
            interval,
            clusters=clusters,
            confidence_level=confidence_level,
            n_resamples=n_resamples,
            random_state=random_state,
        )
        display = cls(
            np.linspace(0, 1, N_POINTS),
            curve,
            density,
            histogram=count_confidences(confidence, correct, weight),
            means=tuple(np.average([correct, confidence], axis=1, weights=weight)),
            smece=smece,
            name=name,
            mode=mode,
            pos_label=pos_label,
            band=band,
            interval=interval,
            confidence_level=confidence_level,
        )
        return display._draw_on(ax, **plot_options)

    def _draw(self, color: Any, **style: Any) -> Line2D:
        """Draw the curve as a line, and again with a width that shows the density."""
        from matplotlib.collections import LineCollection

        line = self._draw_curve(color, markevery=0.15, **style)
        points = np.column_stack([self.prob_pred, self.prob_true])
        widest = WIDEST * line.get_linewidth()
        width = widest * np.sqrt(self.density / self.density.max())
        segments: Any = np.stack([points[:-1], points[1:]], axis=1)
        self.density_ = LineCollection(
            segments,
            linewidths=(width[:-1] + width[1:]) / 2,
            colors=color,
            capstyle="round",
        )
        self.ax_.add_collection(self.density_, autolim=False)
        return line

    def _means(self) -> Sequence[float]:
        """Return the means over all samples, which the curve does not determine."""
        return self.means


def kernel_regression(
    samples: tuple[Floats, Array, Weights],
    bandwidth: float,
    interval: str | None,
    *,
    clusters: Ints | None = None,
    confidence_level: float,
    n_resamples: int,
    random_state: Seed,
) -> tuple[Floats, Floats, Floats | None]:
    """Return density and curve (N_POINTS,) and the band (2, N_POINTS) or None.

    `samples` are confidences, correctness and weights.
    """
    groups = group_samples(*samples, clusters=clusters)
    points = np.linspace(0, 1, N_POINTS)
    kernel = _reflected_kernel(points, groups.place, bandwidth)
    density = kernel @ groups.mass / groups.mass.sum()
    seen = kernel @ groups.n_samples * np.sqrt(2 * np.pi) * bandwidth >= LEAST_SEEN
    shown = points[seen], groups.place, kernel[seen].T
    curve, band = np.full(N_POINTS, np.nan), None
    curve[seen] = _curve(groups.mass, groups.n_correct, *shown)
    if interval is not None:
        curves = _curve(*_draw(interval, groups, n_resamples, random_state), *shown)
        band = np.full((2, N_POINTS), np.nan)
        band[:, seen] = consistency_band(curves, interval, confidence_level)
    return density, curve, band


def _reflected_kernel(points: Floats, positions: Floats, bandwidth: float) -> Floats:
    """Return the Gaussian kernel (n_points, n_places), reflected at 0 and 1."""
    kernel = np.zeros((len(points), len(positions)))
    for image in range(-5, 6):
        for sign in (1, -1):
            centers = sign * positions + 2 * image
            if np.abs(centers - centers.clip(0, 1)).min() < 10 * bandwidth:
                distance = points[:, None] - centers
                kernel += np.exp(-0.5 * (distance / bandwidth) ** 2)
    return kernel / (np.sqrt(2 * np.pi) * bandwidth)


def _curve(
    mass: Array, n_correct: Array, points: Floats, positions: Floats, kernel: Floats
) -> Floats:
    """Return the curve at `points`, given `mass` and `n_correct` (..., n_groups)."""
    seen = mass @ kernel
    gap = (n_correct - mass * positions) @ kernel
    # A draw may contain no sample near a point.
    gap = np.divide(gap, seen, out=np.full(gap.shape, np.nan), where=seen > 0)
    return points + gap


def _draw(
    interval: str, groups: Groups, n_draws: int, random_state: Seed
) -> tuple[Array, Array]:
    """Return `mass` and `n_correct` of random draws."""
    if interval == "bootstrap":
        return draw_bootstrap(groups, n_draws, random_state)
    return groups.mass, draw_calibrated(groups, n_draws, random_state)
