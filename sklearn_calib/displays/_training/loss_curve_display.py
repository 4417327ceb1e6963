"""A loss, its gradient or its weight over the probability of the true class."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sklearn_calib._missing_packages import explain_missing
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import (
    Interval,
    StrOptions,
    validate_params,
)
from sklearn_calib._validation.types import Floats
from sklearn_calib.displays._base.axes import (
    ABOVE,
    STYLES,
    artists,
    axes_or_new,
    set_labels,
)
from sklearn_calib.displays._base.from_predictions import FrameMixin

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE = "loss curve"
# Labels of the y-axis.
QUANTITIES = {
    "loss": "Loss",
    "gradient": "Derivative of the loss",
    "weight": "Loss / cross-entropy",
    "phi": r"$\phi$",
}


@dataclass(eq=False, repr=False)
class LossCurveDisplay(FrameMixin):
    r"""Loss curve: a loss, its gradient or its weight over the true-class probability.

    A loss with a small gradient at high probabilities does not raise them further, and
    makes a network less confident.

    Use :meth:`from_loss` to create one. Several losses can share axes, with different
    colours.

    Parameters
    ----------
    p : ndarray of shape (n_points,)
        Predicted probability of the true class, in (0, 1).

    value : ndarray of shape (n_points,)
        The quantity at each probability.

    quantity : {"loss", "gradient", "weight", "phi"}, default="loss"
        What the values are; see :meth:`from_loss`.

    regions : tuple of two floats, default=None
        End of the overconfident and start of the underconfident region, which are
        shaded.

    name : str, default=None
        Name of the loss, shown in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the curve.

    figure_ : matplotlib Figure
        Figure that contains the axes.

    line_ : matplotlib Line2D
        The curve.

    See Also
    --------
    sklearn_calib.losses.confidence_regions : The regions as numbers.
    GammaDynamicsDisplay : Gamma that a loss learns in training.

    Examples
    --------
    >>> from sklearn_calib.displays import LossCurveDisplay
    >>> display = LossCurveDisplay.from_loss("focal", gamma=1.0, quantity="weight")
    >>> display.value[:3].round(3)
    array([0.995, 0.99 , 0.985])
    """

    _values = ("value",)

    p: Floats
    value: Floats
    _: KW_ONLY
    quantity: str = "loss"
    regions: tuple[float, float] | None = None
    name: str | None = None

    @classmethod
    @validate_params(
        {
            "quantity": [StrOptions({*QUANTITIES})],
            "n_classes": [Interval(Integral, 2, None, closed="left")],
            "n_points": [Interval(Integral, 2, None, closed="left")],
        }
    )
    def from_loss(
        cls,
        loss: Any,
        *,
        quantity: str = "loss",
        n_classes: int = 2,
        n_points: int = 199,
        name: str | None = None,
        ax: Axes | None = None,
        color: Any = None,
        **loss_params: Any,
    ) -> Self:
        r"""Draw the curve of a loss.

        Parameters
        ----------
        loss : str, class or instance
            A name that :func:`~sklearn_calib.losses.get_loss_names` returns, a
            :class:`~sklearn_calib.losses.CalibrationLoss`, or an instance, such as
            `criterion_` of a fitted network, which is drawn with what it has learned.

        quantity : {"loss", "gradient", "weight", "phi"}, default="loss"
            What to draw:

            - "loss": the loss of a sample [1]_;
            - "gradient": its derivative with respect to p, figure 3 of [1]_;
            - "weight": the loss divided by the cross-entropy, figure 1 of [1]_;
            - "phi": the derivative times -p, which is 1 for cross-entropy. If a network
              minimises the expected loss, the true probability of a class is
              proportional to p divided by phi. For "focal", and for "dual_focal" with a
              constant `competitor`, the regions of over- and underconfidence are
              shaded, as in figure 1 of [2]_.

        n_classes : int, default=2
            Number of classes. All but the true one have the same logit, 0.

        n_points : int, default=199
            Number of probabilities, evenly spaced between 0 and 1.

        name : str, default=None
            Name in the legend. By default, the class name of the loss.

        ax : matplotlib Axes, default=None
            Axes to draw on; by default, those of a new figure. On the axes of an
            earlier display, both losses are shown.

        color : matplotlib color, default=None
            As in :meth:`plot`.

        **loss_params
            Parameters of the loss, as in `gamma=3.0`.

        Returns
        -------
        display : LossCurveDisplay
            The drawn display.

        Raises
        ------
        ValueError
            If the loss is unknown, does not have one of the parameters, or is not a
            function of p: it has embeddings, several labels, past epochs or pairs of
            classes as input.

        Notes
        -----
        If the loss of a sample depends on the batch, as in "aurc" or "mmce", the points
        of the curve are the batch, and the gradient is that of their sum.

        References
        ----------
        .. [1] H. Zhou, S. G. Gruber, T. Popordanoska and M. B. Blaschko, "Revisiting
           Reweighted Risk for Calibration: AURC, Focal Loss, and Inverse Focal Loss",
           arXiv:2505.23463, 2025.
        .. [2] L. Tao, M. Dong and C. Xu, "Dual Focal Loss for Calibration", ICML 2023,
           lemma 1.
        """
        with explain_missing("LossCurveDisplay"):
            from sklearn_calib._torch.loss_curve import loss_curve
            from sklearn_calib.losses import CalibrationLoss

        if not isinstance(loss, CalibrationLoss) or loss_params:
            loss = CalibrationLoss.build(loss, loss_params)
        is_loss = isinstance(loss, CalibrationLoss)
        if not is_loss or loss.needs_indices or loss.is_multilabel:
            raise ValueError(
                "loss must be a CalibrationLoss of logits and one label per sample, "
                f"got {shown(loss)}. Losses of embeddings, of several labels or with a "
                "history of the training data cannot be drawn."
            )
        # Without its reduction, and not on the device of a network.
        loss = deepcopy(loss).cpu()
        loss.reduction = "none"
        loss.ignore_index = -100  # the curve is that of class 0
        p = np.arange(1, n_points + 1) / (n_points + 1)
        value, gradient = loss_curve(loss, p, n_classes)
        if not gradient.any():
            raise ValueError(
                f"loss must depend on the probability of one class, got {shown(loss)}, "
                "whose gradient is 0. Losses of pairs of classes cannot be drawn."
            )
        quantities = {"gradient": gradient, "phi": -p * gradient}
        quantities |= {"loss": value, "weight": value / -np.log(p)}
        display = cls(
            p,
            quantities[quantity],
            quantity=quantity,
            regions=_regions(loss) if quantity == "phi" else None,
            name=type(loss).__name__ if name is None else name,
        )
        return display.plot(ax, color=color)

    def _columns(self) -> dict[str, Floats]:
        """Return the points of the curve."""
        return {"p": self.p, "value": self.value}

    def plot(
        self, ax: Axes | None = None, *, name: str | None = None, color: Any = None
    ) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; by default, those of a new figure. On the axes of an
            earlier display, both losses are shown.

        name : str, default=None
            Name in the legend; by default, the name given to the constructor.

        color : matplotlib color, default=None
            Color of the loss; by default, the next color of a palette that is safe for
            colour-blind readers.

        Returns
        -------
        display : LossCurveDisplay
            The object itself, with the artists as attributes.

        Notes
        -----
        The y-axis of gradients has an inverse hyperbolic sine scale: linear near 0,
        logarithmic further away.
        """
        self.ax_ = axes_or_new(ax, (5.6, 4.2))
        from matplotlib.ticker import SymmetricalLogLocator

        self.figure_ = self.ax_.figure
        if color is None:
            color, _ = STYLES[len(artists(self.ax_, LINE)) % len(STYLES)]
        label = (self.name if name is None else name) or QUANTITIES[self.quantity]
        if self.regions is not None:
            over, under = self.regions
            label = f"{label}: overconfident to {over:.3f}, under from {under:.3f}"
            self.ax_.fill_between(
                self.p,
                self.value,
                where=(self.p <= over) | (self.p >= under),
                color=color,
                alpha=0.15,
                linewidth=0,
            )
        style = {"color": color, "label": label, "gid": LINE}
        (self.line_,) = self.ax_.plot(self.p, self.value, **style)
        if self.quantity == "gradient" and self.ax_.get_yscale() == "linear":
            self.ax_.set_yscale("asinh")
            # The default ticks near 0 cover each other.
            ticks = SymmetricalLogLocator(base=10, linthresh=1)
            self.ax_.yaxis.set_major_locator(ticks)
        x_label = "Probability of the true class"
        set_labels(self.ax_, xlabel=x_label, ylabel=QUANTITIES[self.quantity])
        self.ax_.legend(**ABOVE if self.regions else {"fontsize": "small"})
        return self


def _regions(loss: Any) -> tuple[float, float] | None:
    """Return the regions of the focal losses that have them."""
    from sklearn_calib.losses import DualFocalLoss, FocalLoss, confidence_regions

    competitor = loss.competitor if isinstance(loss, DualFocalLoss) else 0.0
    has_regions = isinstance(loss, FocalLoss | DualFocalLoss) and loss.gamma > 0
    if has_regions and isinstance(competitor, Real) and competitor < 1:
        return confidence_regions(float(loss.gamma), float(competitor))
    return None
