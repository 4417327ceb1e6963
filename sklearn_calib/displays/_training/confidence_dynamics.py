"""Confidence in bins over the epochs, on training and validation data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import did_you_mean
from sklearn_calib._validation.types import Array, Floats, History, Ints
from sklearn_calib.displays._base.axes import STYLES, artists
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
    RUN,
    bin_panels,
    choose_bins,
    count_runs,
    show_legend,
)

if TYPE_CHECKING:
    from matplotlib.lines import Line2D

# Label, color and line width of each quantity, by its name in the history. Lines of
# training data are wide, as those of validation data often cover them.
QUANTITIES = {
    "train_confidence_true": ("Training, true class", STYLES[4][0], 4),
    "bin_confidence": ("Validation, predicted class", STYLES[1][0], 1.2),
    "bin_accuracy": ("Validation accuracy", STYLES[2][0], 1.2),
    "train_confidence_top": ("Training, predicted class", STYLES[3][0], 2.5),
}
SHOWN = ("train_confidence_true", "bin_confidence", "bin_accuracy")
# Line styles of the first run, the second and so on.
LINESTYLES = ("-", "--", ":", "-.")
QUANTITY = "quantity over epochs"
WAY_OUT = "Train with callbacks=[sklearn_calib.callbacks.RecordBins()]."


@dataclass(eq=False, repr=False)
class ConfidenceDynamicsDisplay(FrameMixin):
    """Confidence dynamics: confidence in bins over the epochs of training.

    Each panel shows one bin: the mean confidence on training and on validation data,
    and the accuracy on validation data [1]_. If the network is calibrated, the
    validation confidence equals the accuracy. A loss acts on the training confidence;
    the panels show whether the validation confidence follows it. The range of the
    validation confidences in the bin is shaded.

    Use :meth:`from_estimator` or :meth:`from_history` to create one. Several runs can
    share axes: line styles distinguish runs, and colours distinguish quantities.

    Parameters
    ----------
    epochs : ndarray of shape (n_epochs,)
        Epoch numbers.

    train_confidence_true : ndarray of shape (n_epochs, n_bins)
        Mean probability of the true class on training data, in each bin; nan in empty
        bins, which interrupts the line.

    train_confidence_top : ndarray of shape (n_epochs, n_bins)
        Mean probability of the predicted class of the same samples.

    bin_confidence : ndarray of shape (n_epochs, n_bins)
        Mean probability of the predicted class on validation data; nan in empty bins.

    bin_accuracy : ndarray of shape (n_epochs, n_bins)
        Accuracy on validation data; nan in empty bins.

    bin_edges : ndarray of shape (n_epochs, n_bins + 1)
        Edges of the bins of validation data; padded with nan in epochs with fewer bins.

    name : str, default=None
        Name of the run, shown in the legend.

    Attributes
    ----------
    axes_ : ndarray of shape (1, n_shown)
        Axes of the bins shown.

    figure_ : matplotlib Figure
        Figure that contains the axes.

    bins_ : list of int
        Indices of the bins shown; bin 0 contains the lowest confidences.

    lines_ : dict of str to list of matplotlib Line2D
        The lines of each quantity, one for each bin shown.

    bounds_ : list of matplotlib PolyCollection
        The shaded bounds of each bin shown.

    See Also
    --------
    GammaDynamicsDisplay : Calibration gap of the same bins, and the gamma learned from
        it.
    sklearn_calib.callbacks.RecordBins : Callback that records these values.

    References
    ----------
    .. [1] A. Ghosh, T. Schaaf and M. Gormley, "AdaFocal: Calibration-aware Adaptive
       Focal Loss", NeurIPS 2022, section 4 and figures 2 and 8 to 14.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_calib import NeuralClassifier
    >>> from sklearn_calib.callbacks import RecordBins
    >>> from sklearn_calib.displays import ConfidenceDynamicsDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> net = NeuralClassifier(max_epochs=3, callbacks=[RecordBins(n_bins=5)])
    >>> display = ConfidenceDynamicsDisplay.from_estimator(net.fit(X, y))
    >>> display.bins_
    [0, 2, 4]
    """

    _values = tuple(QUANTITIES)

    epochs: Ints
    _: KW_ONLY
    train_confidence_true: Floats
    train_confidence_top: Floats
    bin_confidence: Floats
    bin_accuracy: Floats
    bin_edges: Floats
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
        """Draw the confidence dynamics of a fitted network.

        Parameters
        ----------
        estimator : NeuralClassifier
            Fitted with the callback `RecordBins`.

        name : str, default=None
            Name in the legend; by default, the class name of the loss.

        ax : matplotlib Axes or array-like of them, default=None
            As in :meth:`plot`.

        **plot_options
            Further arguments of :meth:`plot`: `bins`, `quantities`, `linestyle`.

        Returns
        -------
        display : ConfidenceDynamicsDisplay
            The drawn display.

        Raises
        ------
        TypeError
            If the estimator has no history of epochs.

        ValueError
            If the history contains no recorded bins.
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
        """Draw the confidence dynamics of a training history.

        Parameters
        ----------
        history : skorch.history.History or list of dict
            One dict for each epoch, with `epoch` and the values that
            :class:`sklearn_calib.callbacks.RecordBins` records.

        name : str, default=None
            Name in the legend.

        ax : matplotlib Axes or array-like of them, default=None
            As in :meth:`plot`.

        **plot_options
            Further arguments of :meth:`plot`: `bins`, `quantities`, `linestyle`.

        Returns
        -------
        display : ConfidenceDynamicsDisplay
            The drawn display.

        Raises
        ------
        ValueError
            If no epoch contains all of these values.
        """
        rows = recorded_rows(history, ["bin_edges", *QUANTITIES], WAY_OUT)
        n_bins = count_bins(rows, QUANTITIES)
        tables = {name: recorded_table(rows, name, n_bins) for name in QUANTITIES}
        tables["bin_edges"] = recorded_table(rows, "bin_edges", n_bins + 1)
        return cls(recorded_epochs(rows), **tables, name=name).plot(ax, **plot_options)

    def plot(
        self,
        ax: Any = None,
        *,
        bins: ArrayLike | None = None,
        quantities: Sequence[str] = SHOWN,
        name: str | None = None,
        linestyle: Any = None,
    ) -> Self:
        """Draw the confidence dynamics.

        Parameters
        ----------
        ax : matplotlib Axes or array-like of shape (1, n_shown), default=None
            A single axes, which the panels replace; or the `axes_` of an earlier
            display of the same bins, to compare runs. By default, a new figure.

        bins : "all" or array-like of int, default=None
            Indices of the bins to show; 0 is the bin of the lowest confidences. By
            default, the lowest, the middle and the highest bin.

        quantities : sequence of str
            Quantities to show, by their names in the history. By default, all but
            `train_confidence_top`.

        name : str, default=None
            Name in the legend; by default, the name given to the constructor.

        linestyle : matplotlib linestyle, default=None
            Line style of the run; by default solid for the first run on the axes, then
            dashed, dotted and dash-dotted.

        Returns
        -------
        display : ConfidenceDynamicsDisplay
            The object itself, with the artists as attributes.

        Raises
        ------
        ValueError
            If `bins` or `quantities` are unknown, or the number of axes in `ax` is
            wrong.
        """
        _check_quantities(quantities)
        n_bins = self.bin_confidence.shape[1]
        self.bins_ = choose_bins(bins, n_bins)
        self.axes_ = bin_panels(ax, self.bins_, n_bins, kinds=["Confidence"])
        self.figure_ = self.axes_[0, 0].figure
        if linestyle is None:
            linestyle = LINESTYLES[count_runs(self.axes_) % len(LINESTYLES)]
        self.bounds_: list[Any] = []
        self.lines_: dict[str, list[Line2D]] = {quantity: [] for quantity in quantities}
        for panel, index in zip(self.axes_[0], self.bins_, strict=True):
            self._draw_bounds(panel, index)
            for quantity, lines in self.lines_.items():
                lines.append(self._draw_quantity(panel, index, quantity, linestyle))
        # An empty line, for the legend.
        run = {"label": self.name if name is None else name, "gid": RUN}
        self.axes_[0, 0].plot([], [], color="0.5", linestyle=linestyle, **run)
        self._show_legend()
        return self

    def _columns(self) -> dict[str, Array]:
        """Return the bounds and the quantities of each epoch and bin."""
        tables = {"bin_low": self.bin_edges[:, :-1], "bin_high": self.bin_edges[:, 1:]}
        tables |= {name: getattr(self, name) for name in self._values}
        return columns_by_epoch(self.epochs, **tables)

    def _show_legend(self) -> None:
        """Show a legend with each run and each quantity once."""
        handles: dict[Any, Line2D] = {}
        for line in artists(self.axes_[0, 0], QUANTITY):
            handles.setdefault(line.get_label(), line)
        show_legend(self.axes_, [*handles.values(), self.bounds_[0]])

    def _draw_bounds(self, panel: Any, index: int) -> None:
        """Shade the range of confidences in a bin."""
        bounds = self.bin_edges[:, index], self.bin_edges[:, index + 1]
        style = {"color": "0.5", "alpha": 0.15, "linewidth": 0}
        shade = panel.fill_between(
            self.epochs, *bounds, label="Bounds of the bin", **style
        )
        self.bounds_.append(shade)

    def _draw_quantity(
        self, panel: Any, index: int, quantity: str, linestyle: Any
    ) -> Any:
        """Draw the line of one quantity and return it."""
        label, color, width = QUANTITIES[quantity]
        values = getattr(self, quantity)[:, index]
        # A line would not show values between two missing ones.
        is_nan = np.isnan(np.concatenate(([np.nan], values, [np.nan])))
        isolated = np.flatnonzero(~is_nan[1:-1] & is_nan[:-2] & is_nan[2:]).tolist()
        (line,) = panel.plot(
            self.epochs,
            values,
            label=label,
            color=color,
            linewidth=width,
            linestyle=linestyle,
            marker="." if isolated else "",
            markevery=isolated,
            gid=QUANTITY,
        )
        return line


def _check_quantities(quantities: Iterable[str]) -> None:
    """Raise ValueError for unknown quantities."""
    for quantity in quantities:
        if quantity not in QUANTITIES:
            raise ValueError(
                f"quantities must be among {list(QUANTITIES)}, got {shown(quantity)}."
                f"{did_you_mean(quantity, QUANTITIES)} The default is {SHOWN}. For "
                "'calibration_gap', use GammaDynamicsDisplay."
            )
