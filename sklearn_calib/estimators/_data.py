"""Data as arrays of a network's precision."""

import numpy as np
import torch
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data
from skorch.utils import to_numpy

from sklearn_calib._core.arrays import as_labels, check_numbers


class CheckDataMixin:
    """Validation of the data of a classifier with a parameter `dtype`."""

    _data_dtype = None

    def _check_data(self, *arrays, reset):
        """Validate X, or X and y, as arrays of the network's precision."""
        arrays = [to_numpy(a) if isinstance(a, torch.Tensor) else a for a in arrays]
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
        if len(arrays) == 2:
            check_classification_targets(checked[1])
        return checked
