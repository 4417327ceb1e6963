"""Temperature scaling in one pass, from sums that can be merged."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import CubicSpline

from sklearn_calib._numerics.sample_blocks import array_blocks
from sklearn_calib._solvers.temperature_fit import (
    distance_target,
    row_distances,
    warn_of_bound,
)
from sklearn_calib._state.mergeable import Accumulator
from sklearn_calib._state.schema import NON_NEGATIVE, Count, Numbers, Spec
from sklearn_calib._validation.labels import as_labels
from sklearn_calib._validation.types import Floats
from sklearn_calib.calibrators._base.input_data import (
    RESOLUTION,
    Chunks,
    InputSummary,
    count_errors,
)
from sklearn_calib.calibrators._temperature.temperature import TemperatureScaling

# The temperatures at which the expected distance is summed, from large to small.
NODES = np.geomspace(20, 0.05, 25)


class TemperatureAccumulator(Accumulator):
    r"""Temperature scaling in one pass over the data, from sums that can be merged.

    Each worker adds its chunks to an accumulator. The accumulators are merged, and
    :meth:`calibrator` returns :class:`TemperatureScaling` with the temperature of all
    samples. The state has 31 numbers for any number of samples and classes. It can be
    pickled, or stored as JSON by :func:`sklearn_calib.persistence.to_dict`.

    Parameters
    ----------
    labels : array-like of shape (n_classes,)
        Class label of each column, such as `estimator.classes_`.

    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    sums_ : ndarray of shape (29,)
        Sums over the samples of the weights, the misclassified samples, the distances
        of the true class and of all classes, and the expected distances at 25
        temperatures, from 20 to 0.05. The distance of a logit is that to the largest
        logit of the row.

    n_rows_ : ndarray of shape (2,)
        Numbers of samples with positive weight, and of those that are misclassified.

    n_samples_ : int
        Number of samples with positive weight. Compare it with the expected number, as
        a part that was lost or merged twice changes the temperature without a warning.

    n_features_in_ : int
        Number of columns of X: `n_classes`, or 1.

    See Also
    --------
    TemperatureScaling : Its `fit` reads the data several times, and is exact.

    Notes
    -----
    The log loss is minimal where the expected distance under softmax(z / T) is equal to
    the mean distance of the true classes. The logarithm of the expected distance is
    interpolated by a cubic spline in log(T) between the 25 temperatures. For logits of
    2 to 1000 classes and T from 0.2 to 10, the relative error of T was below 1e-4 in
    all of 300 random problems. This is less than the standard error of T for fewer than
    1e7 samples.

    Probabilities of zero are refused, as their replacement depends on all samples.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import TemperatureAccumulator
    >>> rng = np.random.default_rng(0)
    >>> logits = 2 * rng.normal(size=(1000, 3))
    >>> y = (logits + rng.gumbel(size=(1000, 3))).argmax(axis=1)
    >>> one = TemperatureAccumulator(labels=[0, 1, 2], from_logits=True)
    >>> other = TemperatureAccumulator(labels=[0, 1, 2], from_logits=True)
    >>> one = one.update(3 * logits[:500], y[:500])
    >>> other = other.update(3 * logits[500:], y[500:])
    >>> round((one + other).calibrator().temperature_, 1)
    3.0
    """

    sums_: Floats
    n_rows_: Floats
    n_features_in_: int
    _parameter_constraints = {"labels": ["array-like"], "from_logits": ["boolean"]}

    def __init__(self, *, labels: ArrayLike, from_logits: bool = False) -> None:
        self.labels: Any = labels
        self.from_logits = from_logits

    @property
    def _state_schema(self) -> dict[str, Spec]:
        n_sums = len(NODES) + 4
        return {
            "n_features_in_": Count("n_features_in_"),
            "sums_": Numbers(n_sums, range=NON_NEGATIVE),
            "n_rows_": Numbers(2, range=NON_NEGATIVE),
        }

    @property
    def n_samples_(self) -> int:
        """Number of samples with positive weight."""
        return int(self.n_rows_[0]) if self._has_seen() else 0

    def update(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add a chunk of samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
            Predicted probabilities or logits, as in :class:`TemperatureScaling`.

        y : array-like of shape (n_samples,)
            True labels.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights. They may all be zero.

        Returns
        -------
        self : TemperatureAccumulator
            The object itself. A chunk without samples adds nothing.

        Raises
        ------
        ValueError
            If the chunk is not valid, or if probabilities are zero. It is then not
            added.
        """
        self._validate_params()
        reader = TemperatureScaling(from_logits=self.from_logits)
        chunks = Chunks(reader, list, self.labels)
        data = chunks.check((X, y, sample_weight), reset=True)
        if data is None:
            return self
        blocks = array_blocks(*data)
        summary = InputSummary(reader, blocks)
        if not self.from_logits and summary.has_zeros:
            raise ValueError(
                "X must contain positive probabilities, got zeros. Pass logits with "
                "from_logits=True, or use TemperatureScaling().fit(batches=...)."
            )
        reader.zero_replacement_ = RESOLUTION
        sums = np.zeros(len(NODES) + 4)
        sums[:2] = blocks.weight_sum, summary.n_errors
        for logits, codes, weight in blocks.transform(reader._as_logits):
            distances = logits.max(axis=1, keepdims=True) - logits
            sums[2] += weight @ distances[np.arange(len(codes)), codes]
            sums[3] += weight @ distances.mean(axis=1)
            for k, temperature in enumerate(NODES):
                sums[4 + k] += weight @ row_distances(logits, 1 / temperature)[0]
        return self._add(sums, summary.n_rows, reader.n_features_in_)

    def _merge(self, other: Self) -> None:
        self._add(other.sums_, other.n_rows_, other.n_features_in_)

    def calibrator(self) -> TemperatureScaling:
        """Return temperature scaling, fitted to all samples added so far.

        Returns
        -------
        calibrator : TemperatureScaling
            The fitted calibrator. It warns as :meth:`TemperatureScaling.fit` does.

        Raises
        ------
        ValueError
            If all weights are zero, or T is not between 0.05 and 20.

        sklearn.exceptions.NotFittedError
            If no samples have been added.
        """
        self._check_has_seen()
        fitted = TemperatureScaling(from_logits=self.from_logits)
        fitted.classes_ = as_labels(self.labels, "labels")
        fitted.n_features_in_ = self.n_features_in_
        weight_sum, n_errors = self.sums_[:2].tolist()
        fitted.n_errors_ = n_errors
        if not self.from_logits:
            fitted.zero_replacement_ = RESOLUTION
        fitted.temperature_ = self._find_temperature()
        fitted._warn_of_few_errors(count_errors(n_errors, weight_sum, self.n_rows_))
        return fitted

    def _find_temperature(self) -> float:
        """Return the temperature at which the expected distance has its target."""
        total = self.sums_[0]
        if total == 0:
            raise ValueError(
                "sample_weight must not be zero for all samples, got zeros. Add "
                "samples with positive weights."
            )
        true_distance, every = self.sums_[2:4] / total
        if every == 0:
            warn_of_bound(1.0, "arbitrary, as all logits of each row are equal")
            return 1.0
        target, optimum = distance_target(true_distance, every, total)
        # The sums are in units of T. Those that underflow are far from the target.
        distances = self.sums_[4:] / total * NODES
        near = distances > 1e-4 * target
        x, excess = np.log(NODES[near]), np.log(distances[near] / target)
        if len(x) < 4 or not excess[-1] < 0 < excess[0]:
            raise ValueError(
                f"The temperature fitted to X must be between {NODES[-1]:g} and "
                f"{NODES[0]:g}, got a value outside. Divide all logits by one number, "
                "or use TemperatureScaling().fit(batches=...)."
            )
        roots = CubicSpline(-x, excess).roots(extrapolate=False)
        temperature = math.exp(-float(roots[0]))
        warn_of_bound(temperature, optimum)
        return temperature

    def _get_state(self) -> dict[str, Any]:
        known = vars(self)
        return {
            "n_features_in_": known.get("n_features_in_", len(self.labels)),
            "sums_": known.get("sums_", np.zeros(len(NODES) + 4)),
            "n_rows_": known.get("n_rows_", np.zeros(2)),
        }

    def _set_state(self, state: dict[str, Any]) -> None:
        if state["sums_"][0] > 0:
            self._add(state["sums_"], state["n_rows_"], state["n_features_in_"])

    def _add(self, sums: Floats, n_rows: Floats, n_features: int) -> Self:
        """Add sums to the stored ones."""
        if not self._has_seen():
            self._settings_seen = self._settings()
            self.sums_, self.n_rows_, self.n_features_in_ = sums, n_rows, n_features
            return self
        self._check_unchanged()
        if n_features != self.n_features_in_:
            raise ValueError(
                f"X must have {self.n_features_in_} columns, as in the first chunk, "
                f"got {n_features}. Pass predictions of the same form."
            )
        self.sums_, self.n_rows_ = self.sums_ + sums, self.n_rows_ + n_rows
        return self
