"""Scores of the validation set that callbacks monitor."""

import warnings
from collections.abc import Iterable
from typing import Any

from skorch.callbacks import Callback, Checkpoint, EarlyStopping

# Scores for early stopping, which are recorded in the history; True means the first.
STOPPING_SCORES = ("valid_log_loss", "valid_refinement")


def stopping_score(net: Any) -> str:
    """Return the score that the early stopping of a net monitors."""
    score = net.early_stopping
    return score if isinstance(score, str) else STOPPING_SCORES[0]


def warn_of_calibration_error(callbacks: Iterable[tuple[str, Callback]]) -> None:
    """Warn of a callback that selects the epoch with the lowest calibration error."""
    for name, callback in callbacks:
        monitor = getattr(callback, "monitor", None)
        selects = isinstance(callback, Checkpoint | EarlyStopping)
        if not (selects and isinstance(monitor, str)):
            continue
        words = monitor.removesuffix("_best").split("_")
        if any(word.endswith(("ece", "mce")) for word in words):
            warnings.warn(
                f"{name!r} in callbacks should not monitor {monitor!r}: an untrained "
                "network with a low accuracy and a low confidence is well calibrated, "
                "so the first epoch may be the best. Monitor 'valid_log_loss', or "
                "'valid_refinement' if you calibrate the network afterwards.",
                UserWarning,
            )
