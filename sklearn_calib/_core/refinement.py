"""Recalibration by a temperature that is fitted to the evaluated samples."""

from collections.abc import Callable

from sklearn_calib._core.inputs import effective_n_samples
from sklearn_calib._core.links import softmax
from sklearn_calib._core.optimize import bounded_temperature
from sklearn_calib._core.typing import Floats, Ints


def fit_refinement(
    logits: Floats, codes: Ints, weight: Floats
) -> Callable[[Floats], Floats]:
    """Return the function from logits to temperature-scaled probabilities.

    They are mixed with the uniform distribution.
    """
    weight = weight * (effective_n_samples(weight) / weight.sum())
    temperature, _ = bounded_temperature(logits, codes, weight)
    epsilon = 1 / (weight.sum() + 1)

    def scale(logits: Floats) -> Floats:
        proba = softmax(logits / temperature)
        proba *= 1 - epsilon
        proba += epsilon / logits.shape[1]
        return proba

    return scale


def temperature_scaled(logits: Floats, codes: Ints, weight: Floats) -> Floats:
    """Return temperature-scaled probabilities of the logits that are fitted."""
    return fit_refinement(logits, codes, weight)(logits)
