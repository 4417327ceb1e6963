"""Fixtures for the tests of the losses: all losses, and recorded numbers.

A test with the mark ``losses`` runs for each loss in `LOSSES`, or for those that the
function ``where`` selects. A module that names a file of tests/reference in
``REFERENCE`` has its test of the fixture ``recorded`` run once per recorded case, all
but those that ``NOT_FOLLOWED`` gives a reason for.
"""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from sklearn_calib.losses import (
    ACLSLoss,
    AdaDualFocalLoss,
    AdaFocalLoss,
    AUCMLoss,
    AURCLoss,
    AvUCLoss,
    ConfidencePenaltyLoss,
    CrossEntropyLoss,
    DualFocalLoss,
    FocalCalibrationLoss,
    FocalLoss,
    InverseFocalLoss,
    KDEECELoss,
    MbLSLoss,
    MDCALoss,
    MMCELoss,
    RegularizedAURCLoss,
    SampleDependentFocalLoss,
    SoftBinnedECELoss,
    get_loss,
    get_loss_names,
)

REFERENCE_DIR = Path(__file__).parent.parent / "reference"


def quiet(loss, **params):
    """Return a loss, ignoring the warning that its gamma is too large."""
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return loss(**params)


# The losses that depend on one gamma, at every gamma that the papers use and beyond.
WITH_GAMMA = [
    quiet(loss, gamma=gamma)
    for loss in (DualFocalLoss, FocalCalibrationLoss, FocalLoss, InverseFocalLoss)
    for gamma in (0, 0.5, 1, 3, 10)
]

DEFAULTS = [get_loss(name)() for name in get_loss_names()]
# The defaults of every registered loss, and settings known to be delicate.
LOSSES = [
    *DEFAULTS,
    *WITH_GAMMA,
    ACLSLoss(margin=0.1, lambd=1, base="focal", base__gamma=0.5),
    AdaDualFocalLoss(gamma_initial=-2.0),
    AdaDualFocalLoss(gamma_initial=0.5),
    AdaFocalLoss(n_bins=15, gamma_initial=-2.0),
    AdaFocalLoss(n_bins=15, gamma_initial=0.5),
    CrossEntropyLoss(label_smoothing=0.1),
    DualFocalLoss(gamma=0.5, competitor=2),
    DualFocalLoss(gamma=0.5, competitor=3),
    DualFocalLoss(gamma=0.5, competitor="mean"),
    DualFocalLoss(gamma=0.5, competitor="mean2"),
    DualFocalLoss(gamma=0.5, competitor="mean3"),
    DualFocalLoss(gamma=0.5, competitor=0.0),
    DualFocalLoss(gamma=0.5, competitor=0.2),
    FocalCalibrationLoss(gamma=0.5, norm="l1"),
    FocalCalibrationLoss(gamma_cal=0.5),
    KDEECELoss(mode="classwise", norm="l2", bandwidth=0.05),
    KDEECELoss(mode="top_label", lambd=2, base="focal", base__gamma=0.5),
    KDEECELoss(mode="canonical", bandwidth="auto", norm="l2"),
    KDEECELoss(mode="classwise", bandwidth="auto"),
    AvUCLoss(temperature=None, base="brier"),
    AvUCLoss(temperature=0.1, threshold=0.3, lambd=3),
    ConfidencePenaltyLoss(penalty="l1", base="focal", base__gamma=0.5),
    MbLSLoss(margin=0, lambd=1, base="dual_focal", base__gamma=0.5),
    MDCALoss(lambd=5, base="focal", base__gamma=0.5),
    MMCELoss(lambd=5, squared=False, base="brier"),
    SoftBinnedECELoss(squared=False, temperature=1e-4),
    SoftBinnedECELoss(binning="bin", decay=80, base="focal", base__gamma=0.5),
    SoftBinnedECELoss(binning="bin", squared=False, n_bins=3),
    SampleDependentFocalLoss(gammas=(5, 3, 0.5), thresholds=(0.2, 0.5)),
    SampleDependentFocalLoss(gammas=(5, 0.5), competitor="largest"),
    AUCMLoss(margin=0.1, prior="batch"),
    AURCLoss(confidence="margin", weights="log"),
    AURCLoss(base="brier", weights="sele"),
    RegularizedAURCLoss(lambd=0, confidence="max_logit"),
    RegularizedAURCLoss(lambd=1, epsilon=1e-4, confidence="l2_norm"),
    RegularizedAURCLoss(epsilon="auto", confidence="negative_entropy"),
    RegularizedAURCLoss(epsilon=1e-3, confidence="margin", base=FocalLoss(gamma=0.5)),
    RegularizedAURCLoss(epsilon=10.0, confidence="negative_gini", weights="harmonic"),
    RegularizedAURCLoss(ranks="hard", weights="sele", base="focal", base__gamma=0.5),
]

# In training mode, a loss with a state would change from one test to the next.
LOSSES = [loss.eval() for loss in LOSSES]


def pytest_generate_tests(metafunc):
    if mark := metafunc.definition.get_closest_marker("losses"):
        picked = list(filter(mark.kwargs.get("where"), LOSSES))
        defaults = [loss for loss in picked if loss in DEFAULTS]
        settings = [loss for loss in picked if loss not in DEFAULTS]
        metafunc.config.hold(metafunc, "loss", defaults, settings)
    if "recorded" not in metafunc.fixturenames:
        return
    path = REFERENCE_DIR / f"{metafunc.module.REFERENCE}.json"
    cases = {
        case["id"]: case for case in json.loads(path.read_text("utf-8"))["expected"]
    }
    for name in metafunc.module.NOT_FOLLOWED:
        del cases[name]
    members = [pytest.param(case, id=name) for name, case in cases.items()]
    metafunc.config.hold(metafunc, "recorded", members)


@pytest.fixture(scope="module")
def assert_recorded(reference, request):
    """Return a function that compares a loss with the recorded value and gradient."""
    data = reference(request.module.REFERENCE)

    def check(recorded, loss, *, merge=lambda grad: grad):
        batch, values = data["inputs"][recorded["input"]], recorded["values"]
        logits = torch.tensor(batch["logits"], dtype=torch.float64, requires_grad=True)
        value = loss(logits, torch.tensor(batch["labels"]))
        value.backward()
        np.testing.assert_allclose(value.item(), values["loss"], **data["tolerance"])

        grad = logits.grad.numpy()
        expected = np.array(values.get("grad", values.get("grad_head")), dtype=float)
        # The authors' gradient is nan where p_t is 1 and gamma below 1; the true one
        # is 0 to any precision there.
        expected = np.nan_to_num(expected, nan=0.0)
        np.testing.assert_allclose(
            merge(grad[: len(expected)]), merge(expected), **data["tolerance"]
        )
        if "grad_abs_sum" in values:
            np.testing.assert_allclose(
                np.abs(grad).sum(), values["grad_abs_sum"], **data["tolerance"]
            )

    return check
