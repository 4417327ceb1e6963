"""Loss curves: the values drawn, regions, and losses without a curve."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import digamma

from sklearn_calib.displays import LossCurveDisplay
from sklearn_calib.losses import (
    CalFocalLoss,
    CRLLoss,
    FocalLoss,
    RefinementLoss,
    confidence_regions,
    mmce_loss,
)

draw = LossCurveDisplay.from_loss
P = np.arange(1, 200) / 200
LOG = np.log(P)
# The loss and its derivative; the latter from equations 37 and 39 of Zhou et al. for
# gamma 2, and by hand for the dual focal loss with the constant 0.3.
FORMULAS = {
    "cross_entropy": ({}, -LOG, -1 / P),
    "focal": (
        {"gamma": 2.0},
        -((1 - P) ** 2) * LOG,
        2 * (1 - P) * LOG - (1 - P) ** 2 / P,
    ),
    "inverse_focal": (
        {"gamma": 2.0},
        -((1 + P) ** 2) * LOG,
        -2 * (1 + P) * LOG - (1 + P) ** 2 / P,
    ),
    "dual_focal": (
        {"gamma": 1.0, "competitor": 0.3},
        -(1.3 - P) * LOG,
        LOG - (1.3 - P) / P,
    ),
    "brier": ({}, 2 * (1 - P) ** 2, -4 * (1 - P)),
}


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name):
    params, loss, gradient = FORMULAS[name]
    expected = {"loss": loss, "gradient": gradient, "weight": loss / -LOG}
    expected["phi"] = -P * gradient
    for quantity, values in expected.items():
        display = draw(name, quantity=quantity, **params)
        assert_allclose(display.p, P)
        assert_allclose(display.value, values, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("undrawn")
def test_number_of_classes():
    """Of K classes, the Brier loss of equal others is (1 - p)^2 K / (K - 1)."""
    display = draw("brier", n_classes=5, n_points=9)
    p = np.arange(1, 10) / 10
    assert_allclose(display.value, (1 - p) ** 2 * 5 / 4)
    gradient = draw("brier", n_classes=5, n_points=9, quantity="gradient").value
    assert_allclose(gradient, -2 * (1 - p) * 5 / 4)


@pytest.mark.usefixtures("undrawn")
def test_weights_of_ranks_are_those_of_the_points():
    """The weight is H(n) - H(n - r) with the rank r, here that of p itself."""
    weight = draw("aurc", quantity="weight", confidence=lambda z: z[:, 0]).value
    n, rank = len(P), np.arange(1, len(P) + 1)
    # The harmonic number of k is digamma(k + 1) plus a constant.
    assert_allclose(weight, digamma(n + 1) - digamma(n - rank + 1), rtol=1e-9)


@pytest.mark.usefixtures("undrawn")
def test_gradient_of_a_batch_loss_is_that_of_the_sum():
    """By differences of the sum, in which each point changes all values."""

    def total(p):
        logits = torch.from_numpy(np.log(np.stack([p, 1 - p], axis=1)))
        target = torch.zeros(len(p), dtype=torch.long)
        return mmce_loss(logits, target, reduction="sum").item()

    display, step = draw("mmce", n_points=8, quantity="gradient"), 1e-6
    for k, gradient in enumerate(display.value):
        shift = step * (np.arange(8) == k)
        change = total(display.p + shift) - total(display.p - shift)
        assert gradient == pytest.approx(change / (2 * step), rel=1e-6)


@pytest.mark.usefixtures("undrawn")
def test_what_a_loss_has_learned():
    """Figure 3a of Ghosh et al.: equation 2 with the accuracy 0.8 in all bins."""
    loss = CalFocalLoss(n_bins=1, lambd=10.0, per_sample=True)
    loss.update([0, 0, 0, 0, 1], [[0.7, 0.3]] * 5)
    gamma = np.exp(10 * (P - np.float32(0.8)))
    expected = (1 - P) ** gamma * -LOG
    assert_allclose(draw(loss).value, expected, rtol=1e-9)
    assert loss.reduction == "mean"


@pytest.mark.usefixtures("undrawn")
def test_names_classes_and_instances():
    expected = draw("focal", gamma=2.0)
    for loss in (FocalLoss, FocalLoss(gamma=7.0, reduction="sum")):
        assert_array_equal(draw(loss, gamma=2.0).value, expected.value)
    display = draw(FocalLoss(gamma=2.0))
    assert_array_equal(display.value, expected.value)
    assert display.name == expected.name == "FocalLoss"


@pytest.mark.parametrize("quantity", ["loss", "gradient", "weight", "phi"])
def test_picture(quantity, draw_all):
    display = draw("focal", quantity=quantity, gamma=1.0, name="focal")
    assert_array_equal(display.line_.get_xydata(), display.frame())
    assert len(display.ax_.collections) == (quantity == "phi")
    draw_all(display.figure_)


def test_regions():
    display = draw("focal", quantity="phi", gamma=1.0, name="focal")
    over, under = display.regions
    assert (over, under) == confidence_regions(1.0)
    (text,) = display.ax_.get_legend().get_texts()
    assert text.get_text() == "focal: overconfident to 0.135, under from 0.368"
    # The shaded area has an edge on the axis at each end of a region.
    (shade,) = display.ax_.collections
    ends = [path.get_extents().intervalx for path in shade.get_paths()]
    assert_allclose(ends, [(P[0], P[over >= P].max()), (P[under <= P].min(), P[-1])])


@pytest.mark.usefixtures("undrawn")
def test_losses_with_regions():
    def regions(*args, **params):
        return draw(*args, quantity="phi", **params).regions

    assert regions("dual_focal", gamma=2.0, competitor=0.3) == confidence_regions(
        2.0, 0.3
    )
    for competitor in ("largest", 2, 1.0):
        assert regions("dual_focal", competitor=competitor) is None
    assert regions("cross_entropy") is None
    assert regions("focal", gamma=0.0) is None
    assert draw("focal").regions is None


@pytest.mark.parametrize(
    "loss", [CRLLoss(), RefinementLoss, "per_label", torch.nn.CrossEntropyLoss()]
)
def test_other_losses(loss):
    with pytest.raises(ValueError, match="loss must be a CalibrationLoss of logits"):
        draw(loss)


def test_pairs_of_classes():
    with pytest.raises(ValueError, match=r"got AUCMLoss\(.*whose gradient is 0"):
        draw("aucm")


def test_unknown_loss():
    with pytest.raises(ValueError, match="Did you mean 'focal'"):
        draw("fokal")
    with pytest.raises(ValueError, match=r"'quantity' parameter of .*'wieght'"):
        draw("focal", quantity="wieght")


def test_scale_of_the_user():
    figure, ax = plt.subplots()
    ax.set(yscale="symlog", ylim=(-5, 0))
    draw("focal", quantity="gradient", ax=ax)
    assert ax.get_yscale() == "symlog"
    assert ax.get_ylim() == (-5, 0)
    plt.close(figure)


def test_ignored_class_zero():
    """The curve is that of a sample that is not ignored."""
    expected = draw("focal").value
    assert_array_equal(draw("focal", ignore_index=0).value, expected)


def test_display_without_a_name():
    display = LossCurveDisplay(P, -LOG).plot()
    assert display.ax_.get_legend().get_texts()[0].get_text() == "Loss"
    regions = {"quantity": "phi", "regions": (0.1, 0.4)}
    label = LossCurveDisplay(P, P, **regions).plot().line_.get_label()
    assert label == r"$\phi$: overconfident to 0.100, under from 0.400"
