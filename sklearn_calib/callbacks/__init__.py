"""skorch callbacks: checkpoints, loss updates, and scores on the validation set."""

from sklearn_calib.callbacks._checkpoint import Checkpoint
from sklearn_calib.callbacks._record_bins import RecordBins
from sklearn_calib.callbacks._update_loss import UpdateLoss
from sklearn_calib.callbacks._validation_scores import (
    valid_ece,
    valid_log_loss,
    valid_refinement,
)

__all__ = [
    "Checkpoint",
    "RecordBins",
    "UpdateLoss",
    "valid_ece",
    "valid_log_loss",
    "valid_refinement",
]
