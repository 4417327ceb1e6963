"""Ensemble temperature scaling: a mixture over three temperatures."""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from sklearn_calib._expressions.rows import mixture, softmax, with_uniform
from sklearn_calib._expressions.symbol import Values
from sklearn_calib._numerics.sample_blocks import Blocks
from sklearn_calib._solvers.temperature_fit import fit_temperature
from sklearn_calib._state.schema import FRACTION, POSITIVE, Number, Numbers
from sklearn_calib._validation.declarations import StrOptions
from sklearn_calib._validation.types import Floats
from sklearn_calib.calibrators._base.calibrator import Calibrator

# Lower bound of the first weight, to preserve the order of the classes.
SMALLEST_WEIGHT = 1e-9


# Function of the mixture weights that returns the loss and its gradient.
ValueAndSlope: TypeAlias = Callable[[Floats], tuple[Any, Floats]]


class EnsembleTemperatureScaling(Calibrator):
    r"""Ensemble temperature scaling (ETS): mixture of temperatures T, 1 and infinity.

    The calibrated probabilities are :math:`w_1\, softmax(z / T) + w_2\, softmax(z) +
    w_3 / K` [1]_, with weights that sum to one. There are two more parameters than for
    temperature scaling. The order of the classes does not change.

    Parameters
    ----------
    objective : {"nll", "brier"}, default="nll"
        Objective that is minimised with respect to T, and then to the weights: the
        negative log-likelihood, or the Brier score, as in the authors' code.

    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    temperature_ : float
        The fitted temperature T.

    weights_ : ndarray of shape (3,)
        The weights of the temperatures T, 1 and infinity, which sum to one.

    classes_ : ndarray of shape (n_classes,)
        Class label of each column.

    n_features_in_ : int
        Number of columns of X: `n_classes`, or 1.

    n_errors_ : float
        Number of misclassified samples in `fit`, see :class:`Calibrator`.

    zero_replacement_ : float
        Value substituted for zero probabilities before taking logarithms, see
        :class:`Calibrator`. Defined only if `from_logits=False`.

    preserves_argmax : bool
        True: the predicted class does not change, up to rounding.

    See Also
    --------
    TemperatureScaling : The special case of weights 1, 0 and 0.

    Notes
    -----
    The objective is a convex function of the weights. With "nll", the log loss on the
    data of `fit` therefore does not exceed the log loss before calibration. The first
    weight is at least 1e-9 to preserve the order of the classes.

    References
    ----------
    .. [1] J. Zhang, B. Kailkhura and T. Y.-J. Han, "Mix-n-Match: Ensemble and
       Compositional Methods for Uncertainty Calibration in Deep Learning", ICML 2020,
       section 3.2.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import EnsembleTemperatureScaling
    >>> from sklearn_calib.metrics import expected_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(1000, 3))
    >>> y = (logits + rng.gumbel(size=(1000, 3))).argmax(axis=1)
    >>> calibrator = EnsembleTemperatureScaling(from_logits=True).fit(3 * logits, y)
    >>> bool(expected_calibration_error(y, calibrator.predict_proba(3 * logits)) < 0.04)
    True
    """

    _errors_needed = 10, 0
    preserves_argmax = True
    _fitted = {
        "temperature_": Number(POSITIVE),
        "weights_": Numbers(3, range=FRACTION, total=1),
    }
    _parameter_constraints = {
        **Calibrator._parameter_constraints,
        "objective": [StrOptions({"nll", "brier"})],
    }

    def __init__(self, *, objective: str = "nll", from_logits: bool = False) -> None:
        self.objective = objective
        self.from_logits = from_logits

    def _fit(self, data: Blocks) -> None:
        self.temperature_ = fit_temperature(data)
        if self.objective == "brier":
            near = math.log(self.temperature_)
            self.temperature_ = _lowest_brier(data, near)
            loss = self._brier_of(data)
        else:
            loss = self._nll_of(data)
        self.weights_ = _minimize_on_simplex(loss)

    def _nll_of(self, data: Blocks) -> ValueAndSlope:
        """Return the log loss as a function of the weights.

        Two numbers of each sample are stored, so that the data are read only once.
        """
        p_true, weight = [], []
        for logits, codes, own_weight in data:
            rows = np.flatnonzero(own_weight)
            parts = with_uniform(self._parts(logits))
            p_true.append(parts[:, rows, codes[rows]])
            weight.append(own_weight[rows] / data.weight_sum)
        return _nll(np.concatenate(p_true, axis=1), np.concatenate(weight))

    def _brier_of(self, data: Blocks) -> ValueAndSlope:
        """Return the Brier score as a function of the weights."""
        gram, p_true = np.zeros((3, 3)), np.zeros(3)
        for logits, codes, weight in data:
            parts = with_uniform(self._parts(logits))
            flat = (parts * np.sqrt(weight[:, None])).reshape(3, -1)
            gram += flat @ flat.T
            p_true += parts[:, np.arange(len(codes)), codes] @ weight
        return _brier(gram / data.weight_sum, p_true / data.weight_sum)

    def _calibrate(self, logits: Values) -> Values:
        return mixture(self.weights_, self._parts(logits))

    def _parts(self, logits: Values) -> tuple[Values, Values]:
        """Return the predictions with the temperatures T and 1."""
        logits = logits.astype(np.float64)
        return softmax(logits / self.temperature_), softmax(logits)


def _nll(p_true: Floats, weight: Floats) -> ValueAndSlope:
    """Return the mean log loss and its gradient as a function of the weights."""

    def value_and_slope(mixture: Floats) -> tuple[Any, Floats]:
        proba = mixture @ p_true
        return -weight @ np.log(proba), -p_true @ (weight / proba)

    return value_and_slope


def _brier(gram: Floats, p_true: Floats) -> ValueAndSlope:
    """Return the Brier score and its gradient as a function of the weights."""
    return lambda mixture: (
        mixture @ gram @ mixture - 2 * mixture @ p_true + 1,
        2 * (gram @ mixture - p_true),
    )


def _minimize_on_simplex(loss: ValueAndSlope) -> Floats:
    """Return the non-negative weights with sum one that minimise the loss."""
    result = minimize(
        loss,
        np.array([0.98, 0.01, 0.01]),
        jac=True,
        bounds=[(SMALLEST_WEIGHT, 1), (0, 1), (0, 1)],
        constraints={
            "type": "eq",
            "fun": lambda mixture: mixture.sum() - 1,
            "jac": np.ones_like,
        },
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    return result.x / result.x.sum()


def _lowest_brier(data: Blocks, near: float) -> float:
    """Return the temperature with the smallest Brier score, searched near exp(near)."""

    def squared_error(log_temperature: float) -> float:
        total = 0.0
        for logits, codes, weight in data:
            proba = softmax(logits.astype(np.float64) * math.exp(-log_temperature))
            true = proba[np.arange(len(codes)), codes]
            total += float(weight @ (np.einsum("ij,ij->i", proba, proba) - 2 * true))
        return total

    best = minimize_scalar(
        squared_error,
        bounds=(near - 3, near + 3),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return math.exp(best.x)
