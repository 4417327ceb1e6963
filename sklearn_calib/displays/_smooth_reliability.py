"""The reliability diagram by kernel regression, at the bandwidth of smECE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._core.heat_kernel import (
    cosine_coefficients,
    self_consistent_bandwidth,
)
from sklearn_calib._core.typing import Seed
from sklearn_calib._core.validation import StrOptions, validate_params
from sklearn_calib.displays._bands import BANDS
from sklearn_calib.displays._diagram import ReliabilityDiagram, count_confidences
from sklearn_calib.displays._kernel_regression import N_POINTS, kernel_regression
from sklearn_calib.displays._predictions import JUDGED, judge

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INTERVALS = {"bootstrap", "consistency"}
# Largest width of the line, in points.
WIDEST = 7


@dataclass(eq=False, repr=False)
class SmoothReliabilityDisplay(ReliabilityDiagram):
    """Smooth reliability diagram: the curve changes continuously with the confidences.

    The curve is the diagonal plus the kernel regression, on the confidence, of what
    came true minus the confidence, at the bandwidth that smECE finds for itself. It is
    as thick as there are many samples: smECE is its mean distance to the diagonal,
    weighted by thickness. A calibrated classifier's is close to the diagonal.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create one. Several on the
    same axes are told apart by colours and markers.

    Parameters
    ----------
    prob_pred : ndarray of shape (n_points,)
        Confidences at equal distances, from 0 to 1.

    prob_true : ndarray of shape (n_points,)
        The curve at each; nan where there are next to no samples.

    density : ndarray of shape (n_points,)
        Density of the confidences at each, smoothed by the same kernel.

    histogram : ndarray of shape (n_bins,) or None
        Number of samples, or sum of their weights, in bins of equal width, which the
        histogram shows. Without it there is none.

    name : str, default=None
        Name of the classifier, which is shown in the legend.

    mode : {"top_label", "positive"}, default="top_label"
        What the probabilities are of: it chooses the words on the axes.

    band : ndarray of shape (2, n_points) or None, default=None
        Lower and upper ends of the band at each point.

    interval : {"bootstrap", "consistency"} or None, default=None
        What the band is, as in :meth:`from_predictions`.

    confidence_level : float, default=0.95
        Level of the band, which is shown in the legend.

    means : tuple of two floats
        Accuracy and mean confidence over all samples.

    smece : float
        Smooth expected calibration error, which is shown in the legend, and the
        bandwidth.

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
        The same curve, as thick as there are many samples.

    band_ : matplotlib PolyCollection or None
        The band.

    See Also
    --------
    ReliabilityDisplay : The same with bins.
    sklearn_calib.metrics.smooth_expected_calibration_error : The number in the legend.

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

    @classmethod
    @validate_params(
        {**JUDGED, **BANDS, "interval": [StrOptions(INTERVALS), None]},
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

        interval : {"consistency", "bootstrap"} or None, default="consistency"
            What is shown of chance: where the curve of a calibrated classifier would
            be, around the diagonal; or where those of samples drawn with replacement
            are, around the curve.

        confidence_level : float, default=0.95
            Level of the band at each confidence by itself, in (0, 1).

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
            Name in the legend. By default the legend shows the error only.

        ax : matplotlib Axes, default=None
            Axes to draw on; new ones by default. Axes that an earlier display was
            drawn on show both classifiers.

        **plot_options
            Further arguments of :meth:`plot`: `color`, `histogram`.

        Returns
        -------
        display : SmoothReliabilityDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If the labels do not match the columns, or `y_proba` holds anything but
            probabilities, or `pos_label` is none of two labels.

        Notes
        -----
        With the confidences :math:`v_i`, of which :math:`y_i \in \{0, 1\}` came true,
        and the Gaussian :math:`K` with the bandwidth of smECE, reflected at 0 and 1,
        the curve is [1]_

        .. math:: t + \frac{\sum_i K(t, v_i) (y_i - v_i)}{\sum_i K(t, v_i)}.

        The regression of :math:`y` itself, without :math:`t` and :math:`v`, would be
        flat at 0 and 1 and bent towards the middle, for a calibrated classifier too.
        Near 0 and 1 the curve may leave the unit interval by the bandwidth; the axes
        end there. It ends where the kernel sees less than half a sample.

        The bandwidth is the same in all draws. The bootstrap is narrow for few samples:
        with 60 it holds the diagonal of a calibrated classifier at 86 % of the points.
        Confidences within 1/4096 of each other are drawn for as equal ones.

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
        mode, judged = judge(y_true, y_proba, mode, pos_label, labels, sample_weight)
        confidence, hit, weight = judged
        weight = np.ones(len(hit)) if weight is None else weight
        gaps = cosine_coefficients(confidence, weight * (hit - confidence))
        smece = self_consistent_bandwidth(gaps / weight.sum())
        density, curve, band = kernel_regression(
            (confidence, hit, weight),
            smece,
            interval,
            confidence_level=confidence_level,
            n_resamples=n_resamples,
            random_state=random_state,
        )
        display = cls(
            np.linspace(0, 1, N_POINTS),
            curve,
            density,
            histogram=count_confidences(confidence, hit, weight),
            means=tuple(np.average([hit, confidence], axis=1, weights=weight)),
            smece=smece,
            name=name,
            mode=mode,
            band=band,
            interval=interval,
            confidence_level=confidence_level,
        )
        return display.plot(ax, **plot_options)

    def _draw(self, color: Any, **style: Any) -> None:
        """Draw the curve as a line, and again as thick as there are many samples."""
        from matplotlib.collections import LineCollection

        # Near 0 and 1 it may leave the axes.
        self._draw_curve(color, markevery=0.15, **style | {"clip_on": True})
        points = np.column_stack([self.prob_pred, self.prob_true])
        width = WIDEST * np.sqrt(self.density / self.density.max())
        segments: Any = np.stack([points[:-1], points[1:]], axis=1)
        self.density_ = LineCollection(
            segments,
            linewidths=(width[:-1] + width[1:]) / 2,
            colors=color,
            capstyle="round",
        )
        self.ax_.add_collection(self.density_, autolim=False)

    def _means(self) -> Sequence[float]:
        """Return the means, which density and curve hold but in part."""
        return self.means
