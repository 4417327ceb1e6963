"""One run: a network trained with a loss by the settings of an experiment."""

import math

import networks
import torch
from skorch.callbacks import Callback, GradientNormClipping, LRScheduler
from skorch.dataset import Dataset
from skorch.helper import predefined_split
from torch.optim.lr_scheduler import MultiStepLR, OneCycleLR

from sklearn_calib import NeuralClassifier
from sklearn_calib._core.links import softmax
from sklearn_calib.losses import get_loss
from sklearn_calib.metrics import expected_calibration_error

BATCH_SIZE = 128
OPTIMIZERS = {
    "SGD": {
        "optimizer": torch.optim.SGD,
        "optimizer__momentum": 0.9,
        "optimizer__weight_decay": 5e-4,
    },
    "Adam": {"optimizer": torch.optim.Adam},
}


class LowestTestError(Callback):
    """Keep the test logits of the epoch with the lowest ECE: a protocol that leaks.

    Zhou et al. (2025) choose among the later epochs by the ECE that they report.
    """

    def __init__(self, X, y, after):
        self.X, self.y, self.after = X, y, after

    def on_train_begin(self, *_, **__):
        """Forget an earlier training."""
        self.logits_, self.error_ = None, math.inf

    def on_epoch_end(self, net, **_):
        """Compare this epoch's error with the lowest."""
        if len(net.history) <= self.after:
            return
        logits = net.forward(self.X).float().cpu().numpy()
        error = expected_calibration_error(self.y, softmax(logits))
        if error < self.error_:
            self.logits_, self.error_ = logits, error


def train(settings, loss, seed, shares, *, device="cpu"):
    """Return the logits of a run by the names of their shares, and the labels."""
    choices = [LowestTestError(*shares["test"], after) for after in _choices(settings)]
    model = build(settings, loss, seed, shares, device, choices).fit(*shares["train"])
    logits = {share: model.decision_function(X) for share, (X, _) in shares.items()}
    labels = {f"y_{share}": y for share, (_, y) in shares.items() if y is not None}
    chosen = {"lowest": choices[0].logits_} if choices else {}
    return {**logits, **chosen, **labels}


def _choices(settings):
    """Return after which epoch the test part chooses, nothing if it does not."""
    return [settings["chosen_after"]] if "chosen_after" in settings else []


def build(settings, loss, seed, shares, device, choices=()):
    """Return the classifier of a run, not trained yet.

    Gradients are clipped only if the parameters of the loss or of the size say so.
    """
    learns = get_loss(loss["loss"])().learns_from_validation
    valid = predefined_split(Dataset(*shares["valid"])) if learns else None
    batch_size = settings.get("batch_size", BATCH_SIZE)
    n_batches = math.ceil(len(shares["train"][1]) / batch_size)
    return NeuralClassifier(
        networks.Prepared,
        module__network=settings["network"],
        module__augment=settings.get("augment", False),
        module__half=device.startswith("cuda"),
        **OPTIMIZERS[settings["optimizer"]],
        lr=settings["lr"],
        batch_size=batch_size,
        max_epochs=settings["epochs"],
        train_split=valid,
        callbacks=[
            *schedule(settings, n_batches),
            ("clip", GradientNormClipping()),
            *(("choice", c) for c in choices),
        ],
        random_state=seed,
        device=device,
        **loss,
    )


def schedule(settings, n_batches):
    """Return the callbacks that set the learning rate."""
    if settings["schedule"] == "one-cycle":
        one_cycle = LRScheduler(
            OneCycleLR,
            step_every="batch",
            max_lr=settings["lr"],
            total_steps=settings["epochs"] * n_batches,
        )
        return [("schedule", one_cycle)]
    if settings["schedule"] == "steps":
        milestones = settings["milestones"]
        steps = LRScheduler(MultiStepLR, milestones=milestones, gamma=0.1)
        return [("schedule", steps)]
    return []
