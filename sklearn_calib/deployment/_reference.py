"""Reference: held-out samples with labels, which correct estimates without labels."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.fit_warnings import warn
from sklearn_calib._validation.labels import as_labels
from sklearn_calib._validation.samples import in_double, read_samples
from sklearn_calib._validation.types import Floats, Ints

# Intervals from fewer samples are too short.
FEW = 20

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
    if labels is None:
        labels = np.unique(as_labels(y_true, "reference"))
        if len(labels) != n_classes:
            raise ValueError(
                f"reference must contain labels of the {n_classes} classes of y_proba, "
                f"got {shown(labels.tolist())}. Pass samples of all classes."
            )
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
    if needs_all and counts.min() < 2:
        raise ValueError(
            "reference must contain two samples or more of each class for a change of "
            f"the class priors, got {shown(counts.tolist())} in the order of the "
            "columns. Pass more held-out data."
        )
    if len(found.codes) < FEW:
        warn(
            f"The interval is too short, since the reference has {len(found.codes)} "
            f"samples. Pass {FEW} or more."
        )
    return found


def posterior_ratio(proba: Floats, priors: Floats, new_priors: Floats) -> Floats:
    """Return the ratios to `new_priors` of probabilities adjusted from `priors`."""
    likelihood = proba / np.maximum(priors, np.finfo(np.float64).tiny)
    ratio: Floats = likelihood / (likelihood @ new_priors)[:, None]
    return ratio
