"""Base class of calibrators that are fitted by sums over the samples."""

from abc import abstractmethod

from sklearn_calib._core.blocks import Blocks, array_blocks
from sklearn_calib._core.typing import Floats, Ints, Weights
from sklearn_calib.calibrators._base import Calibrator


class _SummedCalibrator(Calibrator):
    """Base class of calibrators that are fitted by sums over the samples.

    A subclass defines `_fit_blocks(data)` instead of `_fit`. It reads the data several
    times in blocks of rows, so that they need not fit into memory.
    """

    _is_summed = True

    def _fit(self, logits: Floats, codes: Ints, sample_weight: Weights) -> None:
        self._fit_blocks(array_blocks(logits, codes, sample_weight))

    def _fit_input(self, X: Floats, codes: Ints, sample_weight: Weights) -> None:
        data = array_blocks(X, codes, sample_weight)
        self._fit_blocks(data.transform(self._as_logits).kept())

    @abstractmethod
    def _fit_blocks(self, data: Blocks) -> None:
        """Fit the map to blocks of logits."""
