"""Recalibration by a temperature that is fitted to the evaluated samples."""

from collections.abc import Callable

from sklearn_calib._numerics.sample_blocks import array_blocks
from sklearn_calib._numerics.softmax import softmax
from sklearn_calib._solvers.temperature_fit import bounded_temperature
from sklearn_calib._validation.samples import effective_n_samples
from sklearn_calib._validation.types import Floats, Ints


def fit_refinement(
    values: Floats,
    codes: Ints,
    weight: Floats,
    as_logits: Callable[[Floats], Floats] = lambda logits: logits,
) -> Callable[[Floats], Floats]:
    """Return the function from values to temperature-scaled probabilities.

    They are mixed with the uniform distribution. `as_logits` computes logits of rows.
    """
    weight = weight * (effective_n_samples(weight) / weight.sum())
    data = array_blocks(values, codes, weight).transform(as_logits).kept()
    temperature, _ = bounded_temperature(data)
    epsilon = 1 / (weight.sum() + 1)

    def scale(values: Floats) -> Floats:
        proba = softmax(as_logits(values) / temperature)
        proba *= 1 - epsilon
        proba += epsilon / values.shape[1]
        return proba

    return scale


def temperature_scaled(logits: Floats, codes: Ints, weight: Floats) -> Floats:
    """Return temperature-scaled probabilities of the logits that are fitted."""
    return fit_refinement(logits, codes, weight)(logits)
