"""Gamma and the calibration gap of validation bins over the epochs."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._validation.types import Array, Floats, History, Ints
from sklearn_calib.displays._base.axes import GAP, STYLES, artists
from sklearn_calib.displays._base.from_predictions import FrameMixin, columns_by_epoch
from sklearn_calib.displays._base.recorded_history import (
    count_bins,
    history_of,
    legend_name,
    recorded_epochs,
    recorded_rows,
    recorded_table,
)
from sklearn_calib.displays._training.bin_panels import (
    LINE,
    RUN,
    bin_panels,
    choose_bins,
    count_runs,
    show_legend,
)

if TYPE_CHECKING:
    from matplotlib.lines import Line2D

WAY_OUT = (
    "Train with a loss that records it, and gamma, for each bin of the validation set, "
    "'adafocal', 'ada_dual_focal' or 'calfocal', or with "
    "callbacks=[sklearn_calib.callbacks.RecordBins()]."
)
# Group ids of the band of the inverse focal loss and of the switches to it.
BAND, SWITCH = "inverse focal band", "switch"
LINEAR_UP_TO = 100


@dataclass(eq=False, repr=False)
class GammaDynamicsDisplay(FrameMixin):
    """Gamma dynamics: gamma and calibration gap in bins over the epochs of training.

    For each bin of validation data, the upper panel shows the calibration gap, the mean
    confidence minus the accuracy, and the lower panel the gamma that the loss has
    learned from it [1]_. Above the dashed line, the network is overconfident and gamma
    rises; below the line, gamma falls. Negative values, on a grey background, stand
    for the inverse focal loss with the absolute value of gamma. Diamonds mark epochs in
    which the loss switched between the two. For a loss that learns no gamma, such
    as cross-entropy, only the calibration gap is shown, which the callback
    :class:`~sklearn_calib.callbacks.RecordBins` records.

    Use :meth:`from_estimator` or :meth:`from_history` to create one. Several runs can
    share axes, with different colours.

    Parameters
    ----------
    epochs : ndarray of shape (n_epochs,)
        Epoch numbers.

    calibration_gap : ndarray of shape (n_epochs, n_bins)
        Mean confidence minus accuracy of each bin, in [-1, 1]; nan where the bin was
        not used, which interrupts the line.

    gamma : ndarray of shape (n_epochs, n_bins), default=None
        Gamma of each bin after each epoch; nan as in `calibration_gap`. None for a loss
        that learns no gamma.

    name : str, default=None
        Name of the run, shown in the legend.

    Attributes
    ----------
    axes_ : ndarray of shape (n_rows, n_shown)
        Axes of the bins shown: the calibration gap in the first row, gamma in the
        second, which a run without gamma does not add.

    figure_ : matplotlib Figure
        Figure that contains the axes.

    bins_ : list of int
        Indices of the bins shown; bin 0 contains the lowest confidences.

    gap_lines_ : list of matplotlib Line2D
        Calibration gap of each bin shown.

    gamma_lines_ : list of matplotlib Line2D
        Gamma of each bin shown; empty if gamma is not drawn.

    switch_lines_ : list of matplotlib Line2D
        Markers of the epochs in which gamma changed its sign, for each bin shown; empty
        if gamma is not drawn.

    See Also
    --------
    ConfidenceDynamicsDisplay : Confidence in bins of training and validation data.
    sklearn_calib.losses.AdaFocalLoss : Loss that learns gamma.

    References
    ----------
    .. [1] A. Ghosh, T. Schaaf and M. Gormley, "AdaFocal: Calibration-aware Adaptive
       Focal Loss", NeurIPS 2022, figures 1b, 5, 7 and 16.

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

    _values = ("calibration_gap",)

    epochs: Ints
    calibration_gap: Floats
    _: KW_ONLY
    gamma: Floats | None = None
    name: str | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        name: str | None = None,
        ax: Any = None,
        **plot_options: Any,
    ) -> Self:
        """Draw the gamma dynamics of a fitted network.

        Parameters
        ----------
        estimator : NeuralClassifier
            Fitted with a loss that learns gamma, or with the callback `RecordBins`.
            With `refit=True`, the run with a validation set is drawn.

        name : str, default=None
            Name in the legend; by default, the class name of the loss.

        ax : matplotlib Axes or array-like of them, default=None
            As in :meth:`plot`.

        **plot_options
            Further arguments of :meth:`plot`: `bins`, `color`.

        Returns
        -------
        display : GammaDynamicsDisplay
            The drawn display.

        Raises
        ------
        TypeError
            If the estimator has no history of epochs.

        ValueError
            If the calibration gap was not recorded.
        """
        history = history_of(estimator)
        name = legend_name(estimator, name)
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
        """Draw the gamma dynamics of a training history.

        Parameters
        ----------
        history : skorch.history.History or list of dict
            One dict for each epoch, with `epoch`, and `calibration_gap` and, if the
            loss learns it, `gamma`, as lists with one number for each bin. If some
            epochs have gamma, those without are skipped.

        name : str, default=None
            Name in the legend.

        ax : matplotlib Axes or array-like of them, default=None
            As in :meth:`plot`.

        **plot_options
            Further arguments of :meth:`plot`: `bins`, `color`.

        Returns
        -------
        display : GammaDynamicsDisplay
            The drawn display.

        Raises
        ------
        ValueError
            If no epoch contains the calibration gap.
        """
        names = ["calibration_gap"]
        rows = recorded_rows(history, names, WAY_OUT)
        with_gamma = [row for row in rows if row.get("gamma") is not None]
        if with_gamma:
            rows, names = with_gamma, [*names, "gamma"]
        n_bins = count_bins(rows, names)
        tables = {name: recorded_table(rows, name, n_bins) for name in names}
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
        """Draw the calibration gap, and gamma if the loss learns it.

        Parameters
        ----------
        ax : matplotlib Axes or array-like of shape (n_rows, n_shown), default=None
            A single axes, which the panels replace; or the `axes_` of an earlier
            display of the same bins, to compare runs. On one row of axes, only the
            calibration gap is drawn. By default, a new figure.

        bins : "all" or array-like of int, default=None
            Indices of the bins to show; 0 is the bin of the lowest confidences. By
            default, the lowest, the middle and the highest bin.

        name : str, default=None
            Name in the legend; by default, the name given to the constructor.

        color : matplotlib color, default=None
            Color of the run; by default, the next color of a palette that is safe for
            colour-blind readers.

        Returns
        -------
        display : GammaDynamicsDisplay
            The object itself, with the artists as attributes.

        Raises
        ------
        ValueError
            If `bins` are not indices of bins, or the number of axes in `ax` is wrong.

        Notes
        -----
        If the absolute value of gamma exceeds 100, the y-axis has an inverse hyperbolic
        sine scale: linear near 0, logarithmic further away.
        """
        n_bins = self.calibration_gap.shape[1]
        self.bins_ = choose_bins(bins, n_bins)
        n_rows = len(ax) if np.ndim(ax) == 2 else 1 + (self.gamma is not None)
        kinds = [GAP] if n_rows == 1 else [GAP, "Gamma"]
        self.axes_ = bin_panels(ax, self.bins_, n_bins, kinds=kinds, sharey=True)
        self.figure_ = self.axes_[0, 0].figure
        name = self.name if name is None else name
        palette_color, _ = STYLES[count_runs(self.axes_) % len(STYLES)]
        style = {**LINE, "color": palette_color if color is None else color}
        self.gap_lines_: list[Line2D] = []
        self.gamma_lines_: list[Line2D] = []
        self.switch_lines_: list[Line2D] = []
        for (upper, *lower), index in zip(self.axes_.T, self.bins_, strict=True):
            self._draw_gap(upper, index, label=name, **style)
            if lower and self.gamma is not None:
                self._draw_gamma(lower[0], self.gamma[:, index], **style)
        show_legend(self.axes_, _mark_inverse_focal(self.axes_[1:].ravel()))
        return self

    def _columns(self) -> dict[str, Array]:
        """Return the gap, and gamma if there is one, of each epoch and bin."""
        tables = {"calibration_gap": self.calibration_gap}
        if self.gamma is not None:
            tables["gamma"] = self.gamma
        return columns_by_epoch(self.epochs, **tables)

    def _draw_gap(self, ax: Any, index: int, **style: Any) -> None:
        """Draw the calibration gap of a bin, and a line at zero."""
        ax.axhline(0, color="0.3", linestyle="--", linewidth=1, zorder=1.5)
        gap = self.calibration_gap[:, index]
        self.gap_lines_ += ax.plot(self.epochs, gap, gid=RUN, **style)

    def _draw_gamma(self, ax: Any, gamma: Floats, **style: Any) -> None:
        """Draw gamma of a bin, and mark the epochs in which its sign changed."""
        self.gamma_lines_ += ax.plot(self.epochs, gamma, **style)
        if (np.abs(gamma) > LINEAR_UP_TO).any() and ax.get_yscale() == "linear":
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
    """Shade negative gammas in grey, and return the handles for the legend."""
    handles = {}
    for ax in axes:
        for earlier in artists(ax, BAND):
            earlier.remove()
        if not any((line.get_ydata() < 0).any() for line in ax.lines):
            continue
        lowest, highest = ax.get_ylim()
        band = ax.axhspan(lowest, 0, color="0.9", linewidth=0, zorder=0, gid=BAND)
        # The limits must still adapt to later runs on the same axes.
        ax.set_ylim(lowest, highest, auto=None)
        band.set_label("Inverse focal loss")
        handles["band"] = band
        for line in artists(ax, SWITCH):
            if len(line.get_xdata()):
                line.set_label("Switch")
                handles.setdefault("switch", line)
    return list(handles.values())
