"""The evidence and the calibration gap of a monitor over time."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sklearn_calib._validation.declarations import MODES
from sklearn_calib._validation.types import Array, Floats, Ints
from sklearn_calib.deployment import CalibrationMonitor
from sklearn_calib.displays._base.axes import (
    ABOVE,
    GAP,
    add_axes_below,
    artists,
    axes_or_new,
    curve_style,
    find_axes_below,
    set_labels,
)
from sklearn_calib.displays._base.from_predictions import FrameMixin

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

# Label of each mode; the gap of a class-wise monitor is that of the predicted class.
GAPS = {**dict.fromkeys(MODES, GAP), "positive": "Probability\n- frequency"}
LINE, THRESHOLD, BAND = "e-value", "threshold", "range if calibrated"
GAP_AXES = "gap over time"
# Points of the lower panel; neighbours with few samples are averaged.
N_POINTS = 40
# Half-width of an interval of 95 %, in standard deviations.
WIDTH = 1.96


@dataclass(eq=False, repr=False)
class MonitorDisplay(FrameMixin):
    """Calibration monitoring over time: e-value and calibration gap.

    The upper panel shows the evidence against calibration. An alarm is raised when it
    reaches the threshold. The lower panel shows the calibration gap: the mean
    confidence minus the accuracy, or with mode "positive" the mean probability of the
    positive class minus its frequency. The band contains 95 % of the gaps of a
    calibrated classifier.

    Use :meth:`from_monitor` to create one. Several monitors can share axes, with
    different colours and markers.

    Parameters
    ----------
    batch : ndarray of shape (n_blocks,)
        Index of the last batch of each block.

    n_samples : ndarray of shape (n_blocks,)
        Number of samples of each block.

    confidence : ndarray of shape (n_blocks,)
        Mean confidence, or mean probability of the positive class with mode "positive";
        nan for blocks without samples.

    accuracy : ndarray of shape (n_blocks,)
        Accuracy, or frequency of the positive class; nan for blocks without samples.

    deviation : ndarray of shape (n_blocks,)
        Standard deviation of `accuracy` for a calibrated classifier.

    log_e_value : ndarray of shape (n_blocks,)
        Natural logarithm of the e-value after each block.

    alpha : float, default=0.05
        Probability of a false alarm. The threshold is `1 / alpha`.

    alarm_at : int, default=None
        Index of the batch at which the alarm was raised.

    change_point : int, default=None
        Index of the first batch after the estimated change.

    mode : {"top_label", "positive", "classwise"}, default="top_label"
        Mode of the monitor, which determines the label of the lower panel.

    name : str, default=None
        Name of the classifier, shown in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the e-value.

    gap_ax_ : matplotlib Axes
        Axes with the calibration gap.

    figure_ : matplotlib Figure
        Figure that contains the axes.

    line_ : matplotlib Line2D
        Common logarithm of the e-value.

    gap_line_ : matplotlib Line2D
        Calibration gap. Neighbouring blocks with few samples are averaged.

    band_ : matplotlib PolyCollection
        Range of the gap for a calibrated classifier.

    change_line_ : matplotlib Line2D or None
        Vertical line at the change point.

    alarm_line_ : matplotlib Line2D or None
        Marker of the alarm.

    See Also
    --------
    sklearn_calib.deployment.CalibrationMonitor : The monitor.
    ReliabilityDisplay : Calibration at each predicted probability.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.deployment import CalibrationMonitor
    >>> from sklearn_calib.displays import MonitorDisplay
    >>> rng = np.random.default_rng(0)
    >>> monitor = CalibrationMonitor(labels=[0, 1], mode="positive")
    >>> for day in range(60):
    ...     p = rng.uniform(size=100)
    ...     y = rng.uniform(size=100) < (p if day < 40 else p**2)
    ...     _ = monitor.update(y.astype(int), p)
    >>> display = MonitorDisplay.from_monitor(monitor)
    >>> display.change_point
    40
    """

    _values = ("log_e_value",)

    batch: Ints
    n_samples: Ints
    confidence: Floats
    accuracy: Floats
    deviation: Floats
    log_e_value: Floats
    _: KW_ONLY
    alpha: float = 0.05
    alarm_at: int | None = None
    change_point: int | None = None
    mode: str = "top_label"
    name: str | None = None

    @classmethod
    def from_monitor(
        cls,
        monitor: CalibrationMonitor,
        *,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw the history of a monitor.

        Parameters
        ----------
        monitor : CalibrationMonitor
            A monitor with at least one batch.

        name : str, default=None
            Name in the legend, by default "Classifier".

        ax : matplotlib Axes, default=None
            Axes to draw on, which make space for the lower panel; by default, those of
            a new figure. On the axes of an earlier display, both monitors are shown.

        **plot_options
            Further arguments of :meth:`plot`: `color`.

        Returns
        -------
        display : MonitorDisplay
            The drawn display.

        Raises
        ------
        TypeError
            If `monitor` is not a `CalibrationMonitor`.

        sklearn.exceptions.NotFittedError
            If it does not contain a batch.
        """
        if not isinstance(monitor, CalibrationMonitor):
            raise TypeError(
                "monitor must be a CalibrationMonitor, got "
                f"{type(monitor).__name__}. Create one with labels=model.classes_."
            )
        history: dict[str, Any] = monitor.history()
        display = cls(
            **history,
            alpha=monitor.alpha,
            alarm_at=monitor.alarm_at_,
            change_point=monitor.diagnose().change_point,
            mode=monitor.mode,
            name=name,
        )
        return display.plot(ax, **plot_options)

    def plot(
        self, ax: Axes | None = None, *, name: str | None = None, color: Any = None
    ) -> Self:
        """Draw the e-value and the calibration gap.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on, which make space for the lower panel; by default, those of
            a new figure. On the axes of an earlier display, both monitors are shown.

        name : str, default=None
            Name in the legend; by default, the name given to the constructor.

        color : matplotlib color, default=None
            Color of the monitor; by default, the next color of a palette that is safe
            for colour-blind readers.

        Returns
        -------
        display : MonitorDisplay
            The object itself, with the artists as attributes.
        """
        self.ax_ = axes_or_new(ax, (6.4, 4.8))
        self.figure_ = self.ax_.figure
        style = curve_style(self.ax_, LINE, color)
        if len(self.batch) == 1:
            style["markevery"] = None  # without a marker, a point would be invisible
        name = self.name if name is None else name
        self.gap_ax_ = find_axes_below(self.ax_, GAP_AXES)
        if self.gap_ax_ is None or not self.ax_.lines:  # new, or cleared
            from matplotlib.ticker import MaxNLocator

            self.gap_ax_ = add_axes_below(self.ax_, GAP_AXES, "70%")
            locator = MaxNLocator(integer=True, min_n_ticks=1)
            self.gap_ax_.xaxis.set_major_locator(locator)
        (self.line_,) = self.ax_.plot(
            self.batch,
            self.log_e_value / math.log(10),
            **style,
            label="Classifier" if name is None else name,
        )
        self._draw_gap(style["color"])
        self._mark(style["color"])
        self._decorate()
        return self

    def _columns(self) -> dict[str, Array]:
        """Return the values of each block."""
        names = "batch", "n_samples", "confidence", "accuracy", "deviation"
        return {name: getattr(self, name) for name in (*names, *self._values)}

    def _draw_gap(self, color: Any) -> None:
        """Draw the calibration gap, and its range for a calibrated classifier."""
        ends = _ends_of_groups(self.n_samples)
        starts = np.concatenate([[0], ends[:-1] + 1])
        weight = np.where(np.isnan(self.accuracy), np.nan, self.n_samples)
        gaps = weight * (self.confidence - self.accuracy)
        total, gap, variance = (
            np.add.reduceat(np.nan_to_num(values), starts)
            for values in (weight, gaps, (weight * self.deviation) ** 2)
        )
        total[total == 0] = np.nan
        width = WIDTH * np.sqrt(variance) / total
        at = self.batch[ends]
        self.band_ = self.gap_ax_.fill_between(
            at, -width, width, color=color, alpha=0.15, linewidth=0, gid=BAND
        )
        self.band_.set_label("95 % range if calibrated")
        style = {"color": color, "marker": ".", "linewidth": 1.2}
        self.gap_line_: Line2D = self.gap_ax_.plot(at, gap / total, **style)[0]

    def _mark(self, color: Any) -> None:
        """Mark the change point and the alarm."""
        self.change_line_: Line2D | None = None
        self.alarm_line_: Line2D | None = None
        if self.change_point is not None:
            style = {"color": color, "linestyle": "--", "linewidth": 1}
            self.gap_ax_.axvline(self.change_point, **style)
            label = f"Change at batch {self.change_point}"
            self.change_line_ = self.ax_.axvline(
                self.change_point, **style, label=label
            )
        if self.alarm_at is not None:
            (self.alarm_line_,) = self.ax_.plot(
                self.alarm_at,
                -math.log10(self.alpha),
                marker="*",
                markersize=12,
                color=color,
                markeredgecolor="white",
                linestyle="",
                zorder=3,
                label=f"Alarm at batch {self.alarm_at}",
            )

    def _decorate(self) -> None:
        """Adapt labels and legends to all monitors on the axes."""
        threshold = -math.log10(self.alpha)
        heights = [line.get_ydata()[0] for line in artists(self.ax_, THRESHOLD)]
        if threshold not in heights:
            self.ax_.axhline(
                threshold,
                color="0.3",
                linewidth=1,
                gid=THRESHOLD,
                label=rf"Threshold $1/\alpha$ = {1 / self.alpha:g}",
            )
        if not self.gap_ax_.lines[2:]:
            self.gap_ax_.axhline(0, color="0.3", linewidth=1, zorder=1)
        set_labels(self.ax_, ylabel=r"$\log_{10}$ e-value")
        set_labels(self.gap_ax_, xlabel="Batch", ylabel=GAPS[self.mode])
        handles = [*self.ax_.lines, *artists(self.gap_ax_, BAND)[:1]]
        self.ax_.legend(handles=handles, ncols=2, columnspacing=1, **ABOVE)


def _ends_of_groups(n_samples: Ints) -> Ints:
    """Return the last index of groups of neighbours with enough samples."""
    least = max(n_samples.sum() / N_POINTS, 1)
    ends, total = [], 0
    for i, n in enumerate(n_samples):
        total += n
        if total >= least:
            ends.append(i)
            total = 0
    if not ends or total:
        ends = [*ends[:-1], len(n_samples) - 1]
    return np.array(ends)
