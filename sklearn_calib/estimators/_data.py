"""Data as arrays of a network's precision."""

import numpy as np
import torch
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from sklearn_calib._core.arrays import as_labels, check_numbers


class CheckDataMixin:
    """Validation of the data of a classifier with a parameter `dtype`."""

    _data_dtype = None
    _data_ndim = None

    def _check_data(self, *arrays, reset):
        """Validate X, or X and y, as arrays of the network's precision."""
        arrays = [_on_cpu(array) for array in arrays]
        # Dates would be counted, and text that spells numbers converted.
        arrays[0] = check_numbers(arrays[0], "X")
        if arrays[1:] and arrays[1] is not None:
            arrays[1] = as_labels(arrays[1], "y")
        if reset:
            self._data_dtype = self.dtype
        dtype = self._data_dtype or self.dtype
        with np.errstate(over="ignore"):  # too large for float32 is an error of its own
            checked = validate_data(
                self, *arrays, reset=reset, dtype=dtype, allow_nd=True
            )
        X = checked[0] if arrays[1:] else checked
        if reset:
            self._data_ndim = X.ndim
        elif self._data_ndim not in (None, X.ndim):
            raise ValueError(
                f"X must have {self._data_ndim} dimensions, as in fit, got shape "
                f"{X.shape}. Reshape it, or call fit with data of this shape."
            )
        if len(arrays) == 2:
            check_classification_targets(checked[1])
        return checked


def _on_cpu(array):
    """Return a tensor on the CPU unless it has no values; anything else as it came."""
    is_elsewhere = isinstance(array, torch.Tensor) and not array.is_meta
    return array.cpu() if is_elsewhere else array
