"""skorch callbacks: what is watched on the validation share while a network trains."""

from sklearn_calib.callbacks._validation_scores import valid_ece, valid_log_loss

__all__ = ["valid_ece", "valid_log_loss"]
