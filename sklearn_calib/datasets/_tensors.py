"""The check of what transformations of batches are given."""

from typing import Any

from torch import Tensor


def check_tensors(**values: Any) -> None:
    """Raise TypeError unless all are tensors; the keywords are what messages say."""
    for name, value in values.items():
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{name} must be a torch.Tensor, got {type(value).__name__}. Convert "
                "it with torch.as_tensor."
            )
