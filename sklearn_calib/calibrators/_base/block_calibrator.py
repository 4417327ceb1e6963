"""Base class of calibrators that read the samples in blocks of rows."""

from abc import abstractmethod
from typing import Any

from sklearn_calib._numerics.sample_blocks import Blocks, array_blocks
from sklearn_calib._validation.labels import as_labels
from sklearn_calib._validation.types import Floats, Ints, Weights
from sklearn_calib.calibrators._base.calibrator import Calibrator
from sklearn_calib.calibrators._base.input_data import Chunks
from sklearn_calib.calibrators._base.survey import warn_that_logits_look_like_proba


class _BlockCalibrator(Calibrator):
    """Base class of calibrators that read the samples in blocks of rows.

    A subclass defines `_fit_blocks(data)` instead of `_fit`. It reads the data several
    times, so that they need not fit into memory.
    """

    # Blocks of arrays have at least this number of rows.
    _least_rows = 1

    def _fit(self, logits: Floats, codes: Ints, sample_weight: Weights) -> None:
        self._fit_blocks(array_blocks(logits, codes, sample_weight, self._least_rows))

    def _fit_input(self, X: Floats, codes: Ints, sample_weight: Weights) -> None:
        self._fit_validated(array_blocks(X, codes, sample_weight, self._least_rows))

    def _fit_batches(self, batches: Any, labels: Any) -> float:
        chunks = Chunks(self, batches, labels)
        self.classes_ = as_labels(labels, "labels")
        survey = self._survey(chunks)
        if survey.looks_like_proba and not chunks.are_labels:
            warn_that_logits_look_like_proba()
        self._fit_validated(Blocks(chunks.__iter__, chunks.sizes, chunks.counts))
        return survey.n_errors_counted

    def _fit_validated(self, data: Blocks) -> None:
        """Fit the map to blocks of validated logits or probabilities."""
        self._fit_blocks(data.transform(self._as_logits).kept())

    @abstractmethod
    def _fit_blocks(self, data: Blocks) -> None:
        """Fit the map to blocks of logits."""
