"""Input check of transformations of batches."""

from typing import Any

from torch import Tensor


def check_tensors(**values: Any) -> None:
    """Raise TypeError unless all values are tensors; the keywords are their names."""
    for name, value in values.items():
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{name} must be a torch.Tensor, got {type(value).__name__}. Convert "
                "it with torch.as_tensor."
            )
