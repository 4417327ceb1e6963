"""Histograms of a confidence score of correct and of incorrect predictions."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import roc_auc_score

from sklearn_calib._numerics.confidence import get_confidence
from sklearn_calib._numerics.risk_coverage import RANKING, score_samples
from sklearn_calib._validation.declarations import Interval, validate_params
from sklearn_calib._validation.types import Confidence, Floats
from sklearn_calib.displays._base.axes import (
    ABOVE,
    STYLES,
    artists,
    axes_or_new,
    set_labels,
)
from sklearn_calib.displays._base.from_predictions import FromEstimator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HISTOGRAM = "confidence histogram"
SCORE_NAMES = {
    "l2_norm": "Euclidean norm of the probabilities",
    "margin": "Largest probability minus the second",
    "msp": "Largest probability",
    "negative_entropy": "Negative entropy (nats)",
    "negative_gini": "Negative Gini impurity",
}
CONSTRAINTS = {**RANKING, "n_bins": [Interval(Integral, 1, 1000, closed="both")]}


@dataclass(eq=False, repr=False)
class ConfidenceHistogramDisplay(FromEstimator):
    """Confidence histograms of correct and of incorrect predictions.

    Each histogram is a density, with an area of 1, so that few incorrect predictions
    are visible beside many correct ones. The less the two overlap, the better the
    confidence detects failures [1]_. The legend shows the number of predictions, and
    how well they are separated: the area under the ROC curve (AUROC) of
    :func:`~sklearn_calib.metrics.failure_auroc_score`. Higher is better.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create one. Several
    displays can share axes, with different colours. With ``split=False``, each has one
    histogram, of all predictions.

    Parameters
    ----------
    bin_edges : ndarray of shape (n_bins + 1,)
        Edges of the bins.

    correct : ndarray of shape (n_bins,)
        Number of correct predictions, or sum of their weights, in each bin.

    incorrect : ndarray of shape (n_bins,)
        Number of incorrect predictions, or sum of their weights, in each bin.

    auroc : float
        AUROC of failure detection, shown in the legend; nan if all predictions are
        correct or all are incorrect.

    name : str, default=None
        Name of the classifier, shown in the legend.

    score_name : str, default="Confidence score"
        Label of the x-axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the histograms.

    figure_ : matplotlib Figure
        Figure that contains the axes.

    histograms_ : list of matplotlib StepPatch
        Histograms of correct and of incorrect predictions, or of all predictions.

    See Also
    --------
    RiskCoverageDisplay : Error rate of the most confident samples.
    sklearn_calib.metrics.failure_auroc_score : The AUROC in the legend.

    References
    ----------
    .. [1] R. Hebbalaguppe, A. Shastry, S. S. Ghosal and C. Arora, "Enhancing DNN
       Reliability with Refinement and Calibration", ICLR Workshop on Trustworthy AI
       2026, figure 1.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn_calib.displays import ConfidenceHistogramDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> classifier = GaussianNB().fit(X[:900], y[:900])
    >>> display = ConfidenceHistogramDisplay.from_estimator(
    ...     classifier, X[900:], y[900:]
    ... )
    >>> display.histograms_[1].get_label()
    'Incorrect, GaussianNB (n = 173, AUROC 0.715)'
    """

    _values = ("correct", "incorrect")

    bin_edges: Floats
    correct: Floats
    incorrect: Floats
    _: KW_ONLY
    auroc: float
    name: str | None = None
    score_name: str = "Confidence score"

    @classmethod
    @validate_params(CONSTRAINTS)
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        confidence: Confidence = "msp",
        n_bins: int = 20,
        pos_label: Any = None,
        labels: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw the confidence histograms of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels, of any type.

        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities. A 1-d array contains those of the positive class.

        confidence : str, callable or array-like of shape (n_samples,), default="msp"
            Confidence score, as in :func:`sklearn_calib.metrics.risk_coverage_curve`:
            the largest probability, "negative_entropy", or an array such as
            `logits.max(axis=1)`. It must be finite.

        n_bins : int, default=20
            Number of bins of equal width, at most 1000. They cover the possible values
            of a score with a name, and otherwise the values of the samples.

        pos_label : label, default=None
            Label of the class whose probabilities a 1-d array contains. By default, the
            second of the two labels.

        labels : array-like of shape (n_classes,), default=None
            Class label of each column, such as `estimator.classes_`. By default, the
            sorted distinct values of `y_true`.

        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        name : str, default=None
            Name in the legend.

        ax : matplotlib Axes, default=None
            Axes to draw on; by default, those of a new figure. On the axes of an
            earlier display, the histograms of both are shown.

        **plot_options
            Further arguments of :meth:`plot`: `split`.

        Returns
        -------
        display : ConfidenceHistogramDisplay
            The drawn display.

        Raises
        ------
        ValueError
            If the labels do not match the columns, `y_proba` does not contain
            probabilities, or the confidence is unknown or not finite.

        Examples
        --------
        >>> from sklearn_calib.displays import ConfidenceHistogramDisplay
        >>> display = ConfidenceHistogramDisplay.from_predictions(
        ...     [0, 1, 0, 1], [0.1, 0.9, 0.8, 0.7], n_bins=5
        ... )
        >>> display.correct, display.incorrect
        (array([0., 0., 1., 0., 2.]), array([0., 0., 0., 1., 0.]))
        """
        scores, wrong, weight = score_samples(
            y_true, y_proba, confidence, "zero_one", labels, sample_weight, pos_label
        )
        if not np.isfinite(scores).all():
            raise ValueError(
                "confidence must be finite for a histogram, got "
                f"{np.count_nonzero(~np.isfinite(scores))} infinite values. Clip them."
            )
        scores, score_name = scores.astype(np.float64), "Confidence score"
        weight = np.ones(len(scores)) if weight is None else weight
        limits = scores[weight > 0]
        if isinstance(confidence, str):
            n_classes = np.shape(y_proba)[1] if np.ndim(y_proba) > 1 else 2
            rows = np.full(n_classes, 1 / n_classes), np.eye(n_classes)[0]
            limits = get_confidence(confidence)(np.array(rows))
            score_name = SCORE_NAMES[confidence]
        low, high = limits.min(), limits.max()
        # numpy cannot divide a range of rounding errors, but widens one of length 0.
        is_wide = high - low > 2 * n_bins * np.spacing(max(abs(low), abs(high)))
        edges = np.histogram_bin_edges((low, high if is_wide else low), n_bins)
        # Rounding errors may exceed the limits.
        shown = scores.clip(edges[0], edges[-1])
        correct, incorrect = (
            np.histogram(shown, edges, weights=weight * group)[0]
            for group in (~wrong, wrong)
        )
        auroc = np.nan
        if correct.any() and incorrect.any():
            auroc = float(roc_auc_score(~wrong, scores, sample_weight=weight))
        display = cls(
            edges, correct, incorrect, auroc=auroc, name=name, score_name=score_name
        )
        return display.plot(ax, **plot_options)

    def _columns(self) -> dict[str, Floats]:
        """Return the bins and the predictions in each."""
        names = {"bin_low": self.bin_edges[:-1], "bin_high": self.bin_edges[1:]}
        return names | {name: getattr(self, name) for name in self._values}

    def plot(
        self, ax: Axes | None = None, *, split: bool = True, name: str | None = None
    ) -> Self:
        """Draw the histograms.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; by default, those of a new figure. On the axes of an
            earlier display, the histograms of both are shown.

        split : bool, default=True
            Whether to draw correct and incorrect predictions separately. False is for
            the comparison of several classifiers on the same axes.

        name : str, default=None
            Name in the legend; by default, the name given to the constructor.

        Returns
        -------
        display : ConfidenceHistogramDisplay
            The object itself, with the artists as attributes.

        Notes
        -----
        The legend is above the axes; figures with ``layout="constrained"`` make space
        for it.
        """
        self.ax_ = axes_or_new(ax, (5.6, 4.4))
        self.figure_ = self.ax_.figure
        name = self.name if name is None else name
        self.histograms_: list[Any] = []
        if split:
            auroc = "" if np.isnan(self.auroc) else f", AUROC {self.auroc:.3f}"
            self._draw(self.correct, ["Correct", name], "")
            self._draw(self.incorrect, ["Incorrect", name], auroc, linestyle="--")
        else:
            self._draw(self.correct + self.incorrect, [name or "All predictions"], "")
        self.ax_.legend(handles=artists(self.ax_, HISTOGRAM), **ABOVE)
        set_labels(self.ax_, xlabel=self.score_name, ylabel="Density")
        return self

    def _draw(
        self, counts: Floats, words: list[str | None], score: str, **style: Any
    ) -> None:
        """Draw the density of a group of predictions in the next colour."""
        from matplotlib.colors import to_rgba

        color, _ = STYLES[len(artists(self.ax_, HISTOGRAM)) % len(STYLES)]
        total = counts.sum()
        density = counts / np.diff(self.bin_edges)
        self.histograms_.append(
            self.ax_.stairs(
                density / total if total else density,
                self.bin_edges,
                fill=True,
                color=to_rgba(color, 0.3),
                edgecolor=color,
                # Filled stairs have a line of width 0 by default; None is the usual.
                linewidth=None,
                label=f"{', '.join(filter(None, words))} (n = {total:.6g}{score})",
                gid=HISTOGRAM,
                **style,
            )
        )
