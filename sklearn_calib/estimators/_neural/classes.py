"""Classes of a call of fit: given, known from an earlier call, or found in y."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.labels import as_labels
from sklearn_calib._validation.types import Array


def find_classes(
    net: Any, classes: ArrayLike | None, *, hold_out: bool, reset: bool
) -> Array | None:
    """Return the classes that were given or are known; None means those in y."""
    if not hold_out:
        return check_partial_fit(net, classes)
    return _stay_the_same(None if reset else net._known_classes, classes)


def check_partial_fit(net: Any, classes: ArrayLike | None) -> Array | None:
    """Return the classes of a call of partial_fit, after checking them."""
    if net.early_stopping:
        raise ValueError(
            "early_stopping must be False for partial_fit, which does not hold out "
            f"validation data, got {shown(net.early_stopping)}. Call fit instead."
        )
    if net.class_weight == "balanced":
        raise ValueError(
            "class_weight must not be 'balanced' for partial_fit, which sees a part of "
            "the data. Pass the weights of all data as a dict: use "
            "sklearn.utils.compute_class_weight."
        )
    known = net._known_classes
    if known is None and classes is None:
        raise ValueError(
            "classes must be given in the first call of partial_fit, got None. "
            "Pass all classes, such as numpy.unique(y) of the whole data."
        )
    return _stay_the_same(known, classes)


def distinct_classes(classes: ArrayLike) -> Array:
    """Return the classes in the given order; raise ValueError unless they differ."""
    given = as_labels(classes, "classes")
    if given.ndim != 1 or not 2 <= len(np.unique(given)) == len(given):
        raise ValueError(
            "classes must contain at least two distinct labels, one for each logit, "
            f"got {shown(given.tolist())}. Pass them in the order of the logits."
        )
    return given


def _stay_the_same(known: Array | None, classes: ArrayLike | None) -> Array | None:
    """Return the sorted classes; raise ValueError if they are known to be others."""
    given = None if classes is None else np.unique(as_labels(classes, "classes"))
    if known is None or given is None:
        return given if known is None else known
    if not np.array_equal(given, np.unique(known)):
        raise ValueError(
            f"classes must stay {shown(known.tolist())} after the first call of "
            f"partial_fit, or of fit with warm_start, got {shown(given.tolist())}. "
            "Omit classes, or call fit."
        )
    return known
