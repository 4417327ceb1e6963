"""skorch callbacks: checkpoints, loss updates, and scores on the validation set."""

from typing import TYPE_CHECKING

from sklearn_calib._lazy_names import lazy_names

if TYPE_CHECKING:  # editors and type checkers cannot follow lazy loading
    from sklearn_calib.callbacks._checkpoint import Checkpoint as Checkpoint
    from sklearn_calib.callbacks._record_bins import RecordBins as RecordBins
    from sklearn_calib.callbacks._update_loss import UpdateLoss as UpdateLoss
    from sklearn_calib.callbacks._validation_scores import (
        valid_ece as valid_ece,
        valid_log_loss as valid_log_loss,
        valid_refinement as valid_refinement,
    )

_HOMES = {
    "Checkpoint": "sklearn_calib.callbacks._checkpoint",
    "RecordBins": "sklearn_calib.callbacks._record_bins",
    "UpdateLoss": "sklearn_calib.callbacks._update_loss",
    "valid_ece": "sklearn_calib.callbacks._validation_scores",
    "valid_log_loss": "sklearn_calib.callbacks._validation_scores",
    "valid_refinement": "sklearn_calib.callbacks._validation_scores",
}

__all__ = sorted(_HOMES)

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
