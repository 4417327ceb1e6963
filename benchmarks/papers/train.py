"""One run: train a network with a loss, with the settings of an experiment."""

import math
from dataclasses import replace

import networks
import torch
from skorch.callbacks import Callback, GradientNormClipping, LRScheduler
from skorch.dataset import Dataset
from skorch.helper import predefined_split
from torch.optim.lr_scheduler import CosineAnnealingLR, MultiStepLR, OneCycleLR

from sklearn_calib import NeuralClassifier, RefCalClassifier
from sklearn_calib._numerics.softmax import softmax
from sklearn_calib._sklearn.nested_params import add_prefix
from sklearn_calib.datasets import ImageAugmentation
from sklearn_calib.losses import get_loss
from sklearn_calib.metrics import expected_calibration_error

BATCH_SIZE = 128
# The views of RefCal's first stage in its authors' code. Their second stage and their
# baseline use random crops and flips.
VIEWS = ImageAugmentation(min_area=0.2, max_ratio=4 / 3, jitter=0.4, hue=0.1, grey=0.2)
OPTIMIZERS = {
    "SGD": {
        "optimizer": torch.optim.SGD,
        "optimizer__momentum": 0.9,
        "optimizer__weight_decay": 5e-4,
    },
    "Adam": {"optimizer": torch.optim.Adam},
}


class LowestTestError(Callback):
    """Keep the test logits of the epoch with the lowest test ECE, which leaks.

    Zhou et al. (2025) select one of the last epochs by the ECE that they report.
    """

    def __init__(self, X, y, after):
        self.X, self.y, self.after = X, y, after

    def on_train_begin(self, *_, **__):
        """Reset the lowest error."""
        self.logits_, self.error_ = None, math.inf

    def on_epoch_end(self, net, **_):
        """Compare this epoch's error with the lowest."""
        if len(net.history) <= self.after:
            return
        logits = net.forward(self.X).float().cpu().numpy()
        error = expected_calibration_error(self.y, softmax(logits))
        if error < self.error_:
            self.logits_, self.error_ = logits, error


def train(settings, loss, seed, splits, *, device="cpu"):
    """Return the logits and labels of each split after training."""
    choices = [LowestTestError(*splits["test"], after) for after in _choices(settings)]
    model = build(settings, loss, seed, splits, device, choices).fit(*splits["train"])
    logits = {split: model.decision_function(X) for split, (X, _) in splits.items()}
    labels = {f"y_{split}": y for split, (_, y) in splits.items() if y is not None}
    chosen = {"lowest": choices[0].logits_} if choices else {}
    return {**logits, **chosen, **labels}


def _choices(settings):
    """Return the epoch after which the test set selects, or an empty list."""
    return [settings["chosen_after"]] if "chosen_after" in settings else []


def build(settings, loss, seed, splits, device, choices=()):
    """Return the unfitted classifier of a run.

    Gradients are clipped only if the parameters of the loss or of the size contain it.
    """
    loss, n_train = dict(loss), len(splits["train"][1])
    shared = {"random_state": seed, "device": device}
    half = device.startswith("cuda")
    network = {"network": settings["network"], "half": half}
    if loss.pop("two_stages", False):
        stages = {
            name: train_with({**settings, **settings[name]}, n_train)
            for name in ("refine", "head")
        }
        return RefCalClassifier(
            networks.Prepared,
            **add_prefix("encoder__", network),
            augment=VIEWS,
            augment_head=replace(VIEWS, n_views=1, jitter=0.0, hue=0.0, grey=0.0),
            **add_prefix("refine__", stages["refine"]),
            **add_prefix("head__", stages["head"]),
            **shared,
            **loss,
        )
    learns = get_loss(loss["loss"])().learns_from_validation
    params = train_with(settings, n_train)
    params["callbacks"] += [
        ("clip", GradientNormClipping()),
        *(("choice", c) for c in choices),
    ]
    return NeuralClassifier(
        networks.Prepared,
        **add_prefix("module__", network),
        module__augment=settings.get("augment", False),
        train_split=predefined_split(Dataset(*splits["valid"])) if learns else None,
        **{**params, **shared, **loss},
    )


def train_with(settings, n_train):
    """Return the parameters of a network for these training settings."""
    batch_size = settings.get("batch_size", BATCH_SIZE)
    params = {
        **OPTIMIZERS[settings["optimizer"]],
        "lr": settings["lr"],
        "batch_size": batch_size,
        "max_epochs": settings["epochs"],
        "callbacks": schedule(settings, math.ceil(n_train / batch_size)),
    }
    if "weight_decay" in settings:
        params["optimizer__weight_decay"] = settings["weight_decay"]
    return params


def schedule(settings, n_batches):
    """Return the callbacks that set the learning rate."""
    schedules = {
        "one-cycle": {
            "policy": OneCycleLR,
            "step_every": "batch",
            "max_lr": settings["lr"],
            "total_steps": settings["epochs"] * n_batches,
        },
        "steps": {
            "policy": MultiStepLR,
            "milestones": settings.get("milestones"),
            "gamma": settings.get("factor", 0.1),
        },
        "cosine": {"policy": CosineAnnealingLR, "T_max": settings["epochs"]},
    }
    params = schedules.get(settings["schedule"])
    return [("schedule", LRScheduler(**params))] if params else []
