"""Temperature scaling: divide all logits by one number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib._expressions.rows import softmax
from sklearn_calib._expressions.symbol import Values
from sklearn_calib._numerics.binning import bin_sums, check_most_bins
from sklearn_calib._numerics.sample_blocks import Block, Blocks
from sklearn_calib._solvers.temperature_fit import fit_temperature
from sklearn_calib._state.schema import POSITIVE, Number, Spec
from sklearn_calib._validation.arrays import as_numbers, shown
from sklearn_calib._validation.declarations import COUNT, StrOptions
from sklearn_calib._validation.fit_warnings import warn
from sklearn_calib._validation.samples import top_label
from sklearn_calib._validation.types import Array, Floats
from sklearn_calib.calibrators._base.online_calibrator import (
    LossParts,
    OnlineParameters,
    _OnlineCalibrator,
)

# Grid on which papers search for the temperature with the lowest ECE.
ECE_GRID = np.arange(1, 101) / 10

# A call of `partial_fit` multiplies T by at most this factor, and 1 / T is not smaller.
MAX_FACTOR = 100.0
LEAST_INVERSE = 1e-100


class TemperatureScaling(_OnlineCalibrator):
    r"""Temperature scaling: divide the logits by a temperature fitted to held-out data.

    The calibrated probabilities are softmax(z / T), where z are logits or
    log-probabilities. T > 1 decreases the confidence, and T < 1 increases it; the order
    of the classes does not change. It is the first method to try for a neural network
    [1]_: about ten misclassified samples are sufficient to fit its single parameter.

    Parameters
    ----------
    objective : {"nll", "ece"}, default="nll"
        Objective that T minimises on the data of `fit`. "nll" is the negative
        log-likelihood (log loss), minimised in full precision. "ece" is the top-label
        expected calibration error, minimised on a grid, as in papers on training
        losses; for ties, the smallest T is chosen.

    n_bins : int, default=15
        Number of bins for `objective="ece"`.

    strategy : {"uniform", "quantile"}, default="uniform"
        Whether the bins for `objective="ece"` have equal width [2]_, or equal weight at
        each temperature [3]_. With "quantile", `fit` stores a number for each sample
        and temperature.

    grid : array-like of shape (n_temperatures,), default=None
        Positive temperatures for `objective="ece"`. None is the grid 0.1, 0.2, ...,
        10.0 of [2]_ and [3]_, which is not adapted to the scale of the logits.

    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    temperature_ : float
        T, finite and positive.

    classes_ : ndarray of shape (n_classes,)
        Class label of each column.

    n_features_in_ : int
        Number of columns of X: `n_classes`, or 1.

    n_errors_ : float
        Number of misclassified samples in `fit`, or in all calls of `partial_fit`, see
        :class:`Calibrator`.

    zero_replacement_ : float
        Value substituted for zero probabilities before taking logarithms, see
        :class:`Calibrator`. Defined only if `from_logits=False`.

    preserves_argmax : bool
        True: the predicted class does not change, up to rounding.

    See Also
    --------
    CalibratedClassifier : Combines a classifier and its calibrator.

    Notes
    -----
    With "nll", T is proportional to the scale of the logits, so the probabilities do
    not depend on this scale. The log loss on the data of `fit` does not exceed the log
    loss before calibration.

    The optimal T is 0 if the true class has the largest logit in every row. It is
    infinite if, on average over the samples, the logit of the true class is not larger
    than the mean logit of the row. T is then set to a bound, with a
    `ConvergenceWarning`. Let g(T) be the average of :math:`\max_k z_k - \sum_k p_k z_k`
    over the samples, where p is softmax(z / T). The bounds are the T for which g(T) is
    1 / (n + 1) or n / (n + 1) times :math:`g(\infty)`, where n is the number of samples
    or the sum of their weights.

    :meth:`partial_fit` updates T with new samples. It needs `objective="nll"`.

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On Calibration of Modern
       Neural Networks", ICML 2017, equation 9.

    .. [2] J. Mukhoti, V. Kulharia, A. Sanyal, S. Golodetz, P. H. S. Torr and P. K.
       Dokania, "Calibrating Deep Neural Networks using Focal Loss", NeurIPS 2020,
       section 5.

    .. [3] A. Ghosh, T. Schaaf and M. Gormley, "AdaFocal: Calibration-aware Adaptive
       Focal Loss", NeurIPS 2022, section 6 and table 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib import TemperatureScaling
    >>> rng = np.random.default_rng(0)
    >>> logits = 2 * rng.normal(size=(1000, 3))
    >>> y = (logits + rng.gumbel(size=(1000, 3))).argmax(axis=1)
    >>> overconfident = 3 * logits
    >>> calibrator = TemperatureScaling(from_logits=True).fit(overconfident, y)
    >>> round(calibrator.temperature_, 1)
    3.0
    >>> calibrator.predict_proba(overconfident[:2]).round(2)
    array([[0.23, 0.13, 0.64],
           [0.34, 0.09, 0.57]])
    """

    _errors_needed = 10, 0
    preserves_argmax = True
    _parameter_constraints = {
        **_OnlineCalibrator._parameter_constraints,
        "objective": [StrOptions({"ece", "nll"})],
        "n_bins": COUNT,
        "strategy": [StrOptions({"uniform", "quantile"})],
        "grid": ["array-like", None],
    }

    def __init__(
        self,
        *,
        objective: str = "nll",
        n_bins: int = 15,
        strategy: str = "uniform",
        grid: ArrayLike | None = None,
        from_logits: bool = False,
    ) -> None:
        self.objective = objective
        self.n_bins = n_bins
        self.strategy = strategy
        self.grid = grid
        self.from_logits = from_logits

    @property
    def _fitted(self) -> dict[str, Spec]:
        return {"temperature_": Number(POSITIVE), **self._past(1, 1)}

    def _fit(self, data: Blocks) -> None:
        if self.objective == "nll":
            self.temperature_ = fit_temperature(data)
        else:
            check_most_bins(self.n_bins, data.n_samples)
            grid = ECE_GRID if self.grid is None else _check_grid(self.grid)
            self.temperature_ = _search_ece(data, grid, self.n_bins, self.strategy)

    def _calibrate(self, logits: Values) -> Values:
        return softmax(logits / self.temperature_)

    @property
    def _online_parameters(self) -> OnlineParameters:
        fitted = np.array([[1 / self.temperature_]])
        # T must stay finite if the predictions are worse than random ones.
        lowest = np.maximum(fitted / MAX_FACTOR, LEAST_INVERSE)
        return OnlineParameters(
            fitted, np.ones((1, 1)), lowest, lambda block: [temperature_loss(block)]
        )

    def _set_parameters(self, parameters: Floats, block: Block) -> None:  # noqa: ARG002
        self.temperature_ = float(1 / parameters[0, 0])


def _check_grid(grid: Any) -> Floats:
    """Return the temperatures in increasing order."""
    values = as_numbers(grid, "grid").astype(np.float64)
    is_positive = (values > 0) & (values < np.inf)
    if values.ndim != 1 or not values.size or not is_positive.all():
        raise ValueError(
            f"grid must be a list of finite positive temperatures, got {shown(grid)}. "
            "Pass such numbers, or None for 0.1, 0.2, ..., 10.0."
        )
    return np.unique(values)


def _search_ece(data: Blocks, grid: Floats, n_bins: int, strategy: str) -> float:
    """Return the smallest temperature of the grid with the lowest ECE."""

    def summands(block: Block) -> Iterator[Array]:
        """Yield weights, correctness, and the confidence at each temperature."""
        yield block.weight
        yield top_label(block.logits)[1] == block.codes
        for temperature in grid:
            yield softmax(block.logits / temperature).max(axis=1)

    gaps = np.zeros((len(grid), n_bins))
    # The edges of quantile bins depend on all samples.
    whole = [iter(data.collect(summands))] if strategy == "quantile" else None
    for values in whole or map(summands, data):
        weight, correct = next(values), next(values)
        for gap, confidence in zip(gaps, values, strict=True):
            sums = bin_sums(
                confidence,
                correct,
                n_bins=n_bins,
                strategy=strategy,
                sample_weight=weight,
            )
            gap += sums.confidence - sums.correct
    errors = np.abs(gaps).sum(axis=1)
    best = float(grid[np.argmin(errors)])
    if best in (grid[0], grid[-1]):
        warn(
            f"The lowest ECE is at the end of the grid, T = {best:g}. Rescale the "
            'logits, pass another grid, or use objective="nll".',
            ConvergenceWarning,
        )
    return best


def temperature_loss(block: Block) -> LossParts:
    """Return the log loss of logits as a function of 1 / T."""
    logits, codes, weight = block
    distances = logits.max(axis=1, keepdims=True) - logits
    true = distances[np.arange(len(codes)), codes]

    def loss(parameters: Floats) -> tuple[float, Floats, Floats]:
        proba = np.exp(-parameters * distances)
        total = proba.sum(axis=1)
        proba /= total[:, None]
        mean = np.einsum("ij,ij->i", proba, distances)
        deviation = distances - mean[:, None]
        variance = np.einsum("ij,ij,ij->i", proba, deviation, deviation)
        value = float(weight @ (np.log(total) + parameters * true))
        gradient = np.array([weight @ (true - mean)])
        return value, gradient, np.array([[weight @ variance]])

    return loss
