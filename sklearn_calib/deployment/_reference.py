"""Reference: held-out samples with labels, which correct estimates without labels."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.samples import in_double, read_samples
from sklearn_calib._validation.types import Floats, Ints

# Type of the parameter: labels, probabilities, and weights if there are any.
ReferenceLike = Sequence[ArrayLike]


class Reference(NamedTuple):
    """Probabilities, codes of the true classes, and weights of held-out samples."""

    proba: Floats
    codes: Ints
    weight: Floats

    def in_order(self, order: Ints) -> "Reference":
        """Return the reference with other columns first."""
        proba = self.proba[:, order]
        return Reference(proba, np.argsort(order)[self.codes], self.weight)

    def for_priors(self, priors: Floats, times: Ints | int = 1) -> Floats:
        """Return weights whose sum in each class is its prior."""
        mass = self.weight * times
        sums = np.bincount(self.codes, mass, minlength=len(priors))
        weights: Floats = mass * (priors / sums)[self.codes]
        return weights

    def means_of_classes(self, values: Floats) -> Floats:
        """Return the means of values (n_samples, n_values), in a column per class."""
        mass = np.eye(self.proba.shape[1])[self.codes] * self.weight[:, None]
        means: Floats = values.T @ (mass / mass.sum(axis=0))
        return means


def read_reference(
    reference: ReferenceLike,
    labels: ArrayLike | None,
    n_classes: int,
    *,
    needs_all: bool,
) -> Reference:
    """Return the checked reference."""
    if len(reference) not in (2, 3):
        raise ValueError(
            "reference must be (y_true, y_proba) or (y_true, y_proba, sample_weight), "
            f"got {len(reference)} entries. Pass labels and probabilities of held-out "
            "samples."
        )
    y_true, y_proba, *weights = reference
    data = y_true, y_proba, labels, weights[0] if weights else None
    try:
        proba, codes, weight = read_samples(*data, "canonical").proba()
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"reference must contain labels and probabilities: {error}"
        ) from error
    if proba.shape[1] != n_classes:
        raise ValueError(
            f"reference must have probabilities of the {n_classes} classes, like "
            f"y_proba, got {proba.shape[1]} columns. Pass predictions of the same "
            "classifier."
        )
    weight = np.ones(len(proba)) if weight is None else weight.astype(np.float64)
    kept = weight > 0
    found = Reference(in_double(proba[kept]), codes[kept], weight[kept])
    counts = np.bincount(found.codes, minlength=n_classes)
    if needs_all and not counts.all():
        absent = np.flatnonzero(counts == 0).tolist()
        raise ValueError(
            "reference must contain samples of all classes for a change of the class "
            f"priors, got none of the columns {shown(absent)}. Pass more held-out data."
        )
    return found


def posterior_ratio(proba: Floats, priors: Floats, new_priors: Floats) -> Floats:
    """Return the ratios to `new_priors` of probabilities adjusted from `priors`."""
    likelihood = proba / np.maximum(priors, np.finfo(np.float64).tiny)
    ratio: Floats = likelihood / (likelihood @ new_priors)[:, None]
    return ratio


def draw_within(codes: Ints, rng: np.random.RandomState) -> Ints:
    """Return how often each sample is drawn, as many of each code as there are."""
    order, sizes = np.argsort(codes, kind="stable"), np.bincount(codes)
    first, place = sizes.cumsum() - sizes, codes[order]
    drawn = first[place] + (rng.uniform(size=len(codes)) * sizes[place]).astype(int)
    return np.bincount(order[drawn], minlength=len(codes))
