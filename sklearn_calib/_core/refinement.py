"""Recalibration by a temperature that is fitted to the evaluated samples."""

from sklearn_calib._core.inputs import effective_n_samples
from sklearn_calib._core.links import softmax
from sklearn_calib._core.optimize import bounded_temperature
from sklearn_calib._core.typing import Floats, Ints


def temperature_scaled(logits: Floats, codes: Ints, weight: Floats) -> Floats:
    """Return temperature-scaled probabilities, mixed with the uniform distribution."""
    weight = weight * (effective_n_samples(weight) / weight.sum())
    temperature, _ = bounded_temperature(logits, codes, weight)
    epsilon = 1 / (weight.sum() + 1)
    return (1 - epsilon) * softmax(logits / temperature) + epsilon / logits.shape[1]
