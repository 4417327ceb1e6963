"""What a loss that learns does to gamma, and what gamma does to the calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._core.typing import Floats, History, Ints
from sklearn_calib.displays._axes import STYLES, artists
from sklearn_calib.displays._history import (
    count_bins,
    history_of,
    name_of,
    recorded_epochs,
    recorded_rows,
    recorded_table,
)
from sklearn_calib.displays._panels import (
    LINE,
    RUN,
    bin_panels,
    choose_bins,
    count_runs,
    show_legend,
)

if TYPE_CHECKING:
    from matplotlib.lines import Line2D

NAMES = ("calibration_gap", "gamma")
WAY_OUT = (
    "Train with a loss that records gamma for each bin of the validation share: "
    "'adafocal', 'ada_dual_focal' or 'calfocal'."
)
# The band of the inverse focal loss, and the points at which a loss changes to it.
BAND, SWITCH = "inverse focal band", "switch"
LINEAR_UP_TO = 100
GAP = "Confidence\n- accuracy"


class GammaDynamicsDisplay:
    """Gamma and the calibration gap of bins of the validation share, over the epochs.

    Under the name of each bin stands its calibration gap, the mean confidence minus
    the accuracy on the validation share, and under it the gamma that the loss has
    learned from the gap. Above the dashed line the network is overconfident and gamma
    rises; below it gamma falls. A negative gamma, on grey, is the inverse focal loss
    with minus that gamma; a diamond marks the epoch in which the loss switched.

    Use :meth:`from_estimator` or :meth:`from_history` to create one. Several runs on
    the same axes are told apart by colours.

    Parameters
    ----------
    epochs : ndarray of shape (n_epochs,)
        Numbers of the epochs in which gamma was recorded.

    gamma : ndarray of shape (n_epochs, n_bins)
        Gamma of each bin after each epoch; nan where a bin was not in use, which
        leaves a gap in the line.

    calibration_gap : ndarray of shape (n_epochs, n_bins)
        Mean confidence minus accuracy of each bin, in [-1, 1]; nan as in `gamma`.

    name : str, default=None
        Name of the run, which is shown in the legend.

    Attributes
    ----------
    axes_ : ndarray of shape (2, n_shown)
        Axes with the calibration gap, and below with gamma, of each bin shown.

    figure_ : matplotlib Figure
        Figure that contains them.

    bins_ : list of int
        The bins shown; bin 0 holds the lowest confidences.

    gap_lines_ : list of matplotlib Line2D
        The calibration gap of each bin shown.

    gamma_lines_ : list of matplotlib Line2D
        Gamma of each bin shown.

    switch_lines_ : list of matplotlib Line2D
        The marks of the epochs in which gamma of each bin shown changed its sign.

    See Also
    --------
    ConfidenceDynamicsDisplay : Confidences of the same bins, in training as well.
    sklearn_calib.losses.AdaFocalLoss : A loss that learns gamma.

    References
    ----------
    .. [1] A. Ghosh, T. Schaaf and M. Gormley, "AdaFocal: Calibration-aware Adaptive
       Focal Loss", NeurIPS 2022, figure 5.

    Examples
    --------
    >>> from sklearn_calib.displays import GammaDynamicsDisplay
    >>> history = [
    ...     {"epoch": 1, "gamma": [1.0, 1.2], "calibration_gap": [0.0, 0.2]},
    ...     {"epoch": 2, "gamma": [0.9, 1.3], "calibration_gap": [-0.1, 0.1]},
    ... ]
    >>> display = GammaDynamicsDisplay.from_history(history, name="AdaFocal")
    >>> display.gamma_lines_[1].get_ydata()
    array([1.2, 1.3])
    """

    def __init__(
        self,
        epochs: Ints,
        gamma: Floats,
        calibration_gap: Floats,
        *,
        name: str | None = None,
    ) -> None:
        self.epochs = epochs
        self.gamma = gamma
        self.calibration_gap = calibration_gap
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        name: str | None = None,
        ax: Any = None,
        **plot_options: Any,
    ) -> Self:
        """Draw what the loss of a fitted network has learned.

        Parameters
        ----------
        estimator : NeuralClassifier
            Fitted with a loss that learns gamma. With `refit=True`, the run that held
            out a validation share is drawn.

        name : str, default=None
            Name in the legend, by default the class of the loss.

        ax : matplotlib Axes or array-like of them, default=None
            As in :meth:`plot`.

        **plot_options
            Further arguments of :meth:`plot`: `bins`, `color`.

        Returns
        -------
        display : GammaDynamicsDisplay
            The display, drawn.

        Raises
        ------
        TypeError
            If the estimator has no history of epochs.

        ValueError
            If its loss has recorded no gamma.
        """
        history = history_of(estimator)
        name = name_of(estimator, name)
        return cls.from_history(history, name=name, ax=ax, **plot_options)

    @classmethod
    def from_history(
        cls,
        history: History,
        *,
        name: str | None = None,
        ax: Any = None,
        **plot_options: Any,
    ) -> Self:
        """Draw what a history of epochs holds of gamma.

        Parameters
        ----------
        history : skorch.history.History or list of dict
            One dict for each epoch, with `epoch`, and `gamma` and `calibration_gap` as
            lists of numbers, one for each bin; epochs without gamma are left out.

        name : str, default=None
            Name in the legend.

        ax : matplotlib Axes or array-like of them, default=None
            As in :meth:`plot`.

        **plot_options
            Further arguments of :meth:`plot`: `bins`, `color`.

        Returns
        -------
        display : GammaDynamicsDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If no epoch holds gamma and the calibration gap.
        """
        rows = recorded_rows(history, NAMES, WAY_OUT)
        n_bins = count_bins(rows, NAMES)
        tables = {name: recorded_table(rows, name, n_bins) for name in NAMES}
        display = cls(recorded_epochs(rows), **tables, name=name)
        return display.plot(ax, **plot_options)

    def plot(
        self,
        ax: Any = None,
        *,
        bins: ArrayLike | None = None,
        name: str | None = None,
        color: Any = None,
    ) -> Self:
        """Draw gamma and the calibration gap.

        Parameters
        ----------
        ax : matplotlib Axes or array-like of shape (2, n_shown), default=None
            One axes, whose place the panels take; or the `axes_` of an earlier display
            of the same bins, to compare runs. By default a new figure.

        bins : "all" or array-like of int, default=None
            The bins to show, from 0 for the lowest confidences on. By default the
            lowest, the middle and the highest.

        name : str, default=None
            Name in the legend; by default the one given to the constructor.

        color : matplotlib color, default=None
            Color of the run; by default the next one of a palette that colour-blind
            readers can tell apart.

        Returns
        -------
        display : GammaDynamicsDisplay
            The object itself, with the artists as attributes.

        Raises
        ------
        ValueError
            If there are no such bins, or `ax` holds another number of axes.

        Notes
        -----
        Where gamma has no bound and passes 100, its scale is logarithmic above 1 and
        below -1.
        """
        n_bins = self.gamma.shape[1]
        self.bins_ = choose_bins(bins, n_bins)
        self.axes_ = bin_panels(
            ax, self.bins_, n_bins, kinds=[GAP, "Gamma"], sharey=[GAP]
        )
        self.figure_ = self.axes_[0, 0].figure
        name = self.name if name is None else name
        palette_color, _ = STYLES[count_runs(self.axes_) % len(STYLES)]
        style = {**LINE, "color": palette_color if color is None else color}
        self.gap_lines_: list[Line2D] = []
        self.gamma_lines_: list[Line2D] = []
        self.switch_lines_: list[Line2D] = []
        for (upper, lower), index in zip(self.axes_.T, self.bins_, strict=True):
            self._draw_gap(upper, index, label=name, **style)
            self._draw_gamma(lower, index, **style)
        show_legend(self.axes_, _mark_inverse_focal(self.axes_[1]))
        return self

    def _draw_gap(self, ax: Any, index: int, **style: Any) -> None:
        """Draw the calibration gap of a bin, and where it is none."""
        ax.axhline(0, color="0.3", linestyle="--", linewidth=1, zorder=1.5)
        gap = self.calibration_gap[:, index]
        self.gap_lines_ += ax.plot(self.epochs, gap, gid=RUN, **style)

    def _draw_gamma(self, ax: Any, index: int, **style: Any) -> None:
        """Draw gamma of a bin, and mark the epochs in which it changed its sign."""
        gamma = self.gamma[:, index]
        self.gamma_lines_ += ax.plot(self.epochs, gamma, **style)
        if (np.abs(gamma) > LINEAR_UP_TO).any():
            ax.set_yscale("asinh")
        used = np.flatnonzero(~np.isnan(gamma))
        switched = used[1:][np.diff(np.sign(gamma[used])) != 0]
        mark = {"marker": "D", "markersize": 5, "markerfacecolor": "white"}
        self.switch_lines_ += ax.plot(
            self.epochs[switched],
            gamma[switched],
            color=style["color"],
            linestyle="",
            gid=SWITCH,
            zorder=3,
            **mark,
        )


def _mark_inverse_focal(axes: Any) -> list[Any]:
    """Put grey behind negative gammas, and return what the legend says of them."""
    handles = {}
    for ax in axes:
        for earlier in artists(ax, BAND):
            earlier.remove()
        if not any((line.get_ydata() < 0).any() for line in ax.lines):
            continue
        lowest, highest = ax.get_ylim()
        band = ax.axhspan(lowest, 0, color="0.9", linewidth=0, zorder=0, gid=BAND)
        # Later runs on the same axes may still need more room.
        ax.set_ylim(lowest, highest, auto=None)
        band.set_label("Inverse focal loss")
        handles["band"] = band
        for line in artists(ax, SWITCH):
            if len(line.get_xdata()):
                line.set_label("Switch")
                handles.setdefault("switch", line)
    return list(handles.values())
