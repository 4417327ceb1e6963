"""Ensemble of near-isotonic regressions (ENIR)."""

import heapq
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import xlog1py, xlogy

from sklearn_calib._expressions.columns import interpolate
from sklearn_calib._expressions.symbol import Values
from sklearn_calib._numerics.binning import sums_by_value
from sklearn_calib._state.schema import FRACTION, Numbers, Tuple
from sklearn_calib._validation.types import Array, Floats, Ints
from sklearn_calib.calibrators._one_vs_rest.one_vs_rest import (
    _OneVsRestCalibrator,
)

# Solutions with more groups have a negligible weight.
MAX_GROUPS = 300


class ENIR(_OneVsRestCalibrator):
    r"""Ensemble of near-isotonic regressions (ENIR), weighted by BIC.

    Isotonic regression does not allow the map to decrease; near-isotonic regression
    only penalises decreases. The maps for all penalty strengths, from zero to the
    smallest one for which the map is monotonic, are averaged with weights from the
    Bayesian information criterion (BIC) [1]_.

    Parameters
    ----------
    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    maps_ : list
        One piecewise linear map for each class (for two classes, only for the second):
        probabilities before and after calibration, each of shape (n_points,).

    class_prior_ : ndarray of shape (n_classes,)
        Class frequencies, with one pseudo-count added to each class.

    mixing_ : float
        Weight of `class_prior_` in the result, 1 / (n_samples + 1).

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
        False: each class has its own map, so the predicted class may change.

    See Also
    --------
    IsotonicCalibration : A monotonic map.
    BBQ : Average over histograms instead of near-isotonic regressions.

    Notes
    -----
    The averaged maps are the solutions for those penalty strengths at which two groups
    of equal values merge [2]_. A solution with d groups and log-likelihood L has the
    weight :math:`\exp(L - d \log(2 \pi n) / 2)`. The weight is 0 if the solution gives
    the true label of a sample a probability of zero. As in the authors' code, the value
    of each group is then shrunk towards the mean predicted probability of the group,
    which has the weight of at most one sample. The map is linear between its points,
    and constant outside their range.

    With the weight w = `mixing_`, the result is (1 - w) q + w `class_prior_`, so that
    no probability is zero; `class_prior_` has the weight of one additional sample. Here
    q are the values of the maps. For two classes, they are 1 - q and q with the map of
    the second class. For more, each row is divided by its sum, and is `class_prior_` if
    the sum is zero.

    References
    ----------
    .. [1] M. P. Naeini and G. F. Cooper, "Binary Classifier Calibration Using an
       Ensemble of Near Isotonic Regression Models", ICDM 2016.

    .. [2] R. J. Tibshirani, H. Hoefling and R. Tibshirani, "Nearly-Isotonic
       Regression", Technometrics 53, 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import ENIR
    >>> from sklearn_calib.metrics import expected_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(1000, 3))
    >>> y = (logits + rng.gumbel(size=(1000, 3))).argmax(axis=1)
    >>> calibrator = ENIR(from_logits=True).fit(3 * logits, y)
    >>> bool(expected_calibration_error(y, calibrator.predict_proba(3 * logits)) < 0.04)
    True
    """

    _errors_needed = 100, 1
    _maps_probabilities = True
    # Points, linear between them.
    _map = Tuple(Numbers("n + 1", increasing=True), Numbers("n + 1", range=FRACTION))
    _returns_zero = True

    def __init__(self, *, from_logits: bool = False) -> None:
        self.from_logits = from_logits

    def _fit_map(self, score: Floats, target: Array, sample_weight: Floats) -> Any:
        score, mass, positives = sums_by_value(score, target, sample_weight)
        # The weights are relative to the largest so far: only the average is kept.
        largest, total, average = -math.inf, 0.0, np.zeros(len(score))
        for _, first, value in near_isotonic_path(positives / mass, mass, MAX_GROUPS):
            sums = [
                np.add.reduceat(part, first) for part in (mass, positives, mass * score)
            ]
            value = np.clip(value, 0, 1)
            criterion = _criterion(value, *sums[:2])
            if criterion > largest:
                factor = math.exp(largest - criterion)
                largest, total, average = criterion, total * factor, average * factor
            if (weight := math.exp(criterion - largest)) > 0:
                sizes = np.diff(first, append=len(score))
                total += weight
                average += weight * np.repeat(_shrink_to_score(value, *sums), sizes)
        return score, average / total

    def _apply_maps(self, proba: Values) -> Values:
        return interpolate(proba, self.maps_)


def _criterion(value: Floats, mass: Floats, positives: Floats) -> Any:
    """Return the log weight of a solution, by the BIC."""
    likelihood = xlogy(positives, value) + xlog1py(mass - positives, -value)
    return likelihood.sum() - len(value) * math.log(2 * math.pi * mass.sum()) / 2


def _shrink_to_score(
    value: Floats, mass: Floats, positives: Floats, score_sum: Floats
) -> Floats:
    """Return values with a pseudo-sample of at most one, at the mean score."""
    before = score_sum / mass
    extra = 1 - np.abs(positives / mass - before)
    return (value * mass + before * extra) / (mass + extra)


def near_isotonic_path(
    target: Array, weight: Floats, max_groups: int
) -> Iterator[tuple[float, Ints, Floats]]:
    """Yield the solutions with at most `max_groups` groups of equal values.

    A solution is the x that minimises ``sum(weight * (target - x) ** 2) / 2 + penalty *
    sum(max(x[i] - x[i + 1], 0))``. As the penalty grows, groups of equal neighbours
    move towards each other, and groups that meet are merged: the modified pool adjacent
    violators algorithm [1]_.

    Parameters
    ----------
    target, weight : ndarray of shape (n_values,)
        Weights are positive.

    max_groups : int

    Yields
    ------
    penalty : float
        Penalties at which groups merge, in increasing order.

    first : ndarray of shape (n_groups,)
        Index of the first value of each group.

    value : ndarray of shape (n_groups,)

    References
    ----------
    .. [1] R. J. Tibshirani, H. Hoefling and R. Tibshirani, "Nearly-Isotonic
       Regression", Technometrics 53, 2011.
    """
    groups = _Groups(target, weight)
    meetings = [
        meeting for group in range(groups.count) for meeting in groups.next(group)
    ]
    heapq.heapify(meetings)
    penalty = 0.0
    while meetings:
        due, group, versions = heapq.heappop(meetings)
        if groups.versions(group) != versions:
            continue  # one of the two has merged with another group since
        if due > penalty and penalty > 0 and groups.count <= max_groups:
            yield penalty, *groups.solution(penalty)
        penalty = due
        for changed in groups.merge(group, penalty):
            for meeting in groups.next(changed):
                heapq.heappush(meetings, meeting)
    yield penalty, *groups.solution(penalty)


class _Groups:
    """Linked list of groups of equal neighbours; Python numbers are faster here."""

    def __init__(self, target: Array, weight: Floats) -> None:
        first = np.flatnonzero(np.append(True, np.diff(target) != 0))
        self.first = first.tolist()
        self.weight = np.add.reduceat(weight, first).tolist()
        self.value = target[first].tolist()
        self.count = len(first)
        self.since = [0.0] * self.count
        self.left = [*range(-1, self.count - 1)]
        self.right = [*range(1, self.count + 1)]
        self.version = [0] * self.count
        # Whether a group is above its right neighbour; this does not change until they
        # merge.
        falls = (np.diff(self.value) < 0).astype(float).tolist()
        self.falls = [*falls, 0.0, 0.0]
        self.slope = [self._slope(group) for group in range(self.count)]

    def _slope(self, group: int) -> float:
        """Return the derivative of a group's value with respect to the penalty."""
        # Index -1 is the last entry of `falls`, which does not belong to a group.
        return (self.falls[self.left[group]] - self.falls[group]) / self.weight[group]

    def _at(self, group: int, penalty: float) -> float:
        elapsed = penalty - self.since[group]
        return self.value[group] + self.slope[group] * elapsed

    def versions(self, group: int) -> Any:
        """Return a key that changes when the group or its right neighbour is merged."""
        right = self.right[group]
        if right >= len(self.version):
            return None
        return self.version[group], right, self.version[right]

    def next(self, group: int) -> list[Any]:
        """Return when the group meets its right neighbour, in a list of at most one."""
        right = self.right[group]
        if right >= len(self.version):
            return []
        now = max(self.since[group], self.since[right])
        spacing = self._at(right, now) - self._at(group, now)
        closing = self.slope[group] - self.slope[right]
        if closing == 0 or (closing < 0) != bool(self.falls[group]):
            return []
        # Because of rounding errors, the spacing may already be negative.
        return [(now + max(0.0, spacing / closing), group, self.versions(group))]

    def merge(self, group: int, penalty: float) -> list[int]:
        """Merge the group with its right neighbour; return the affected groups."""
        right, left = self.right[group], self.left[group]
        weight = self.weight[group] + self.weight[right]
        total = self.weight[group] * self._at(group, penalty)
        total += self.weight[right] * self._at(right, penalty)
        self.value[group], self.weight[group] = total / weight, weight
        self.since[group] = penalty
        self.version[group] += 1
        self.version[right] = -1
        self.falls[group] = self.falls[right]
        self.right[group] = self.right[right]
        if self.right[right] < len(self.left):
            self.left[self.right[right]] = group
        self.slope[group] = self._slope(group)
        self.count -= 1
        return [group] if left < 0 else [left, group]

    def solution(self, penalty: float) -> tuple[Ints, Floats]:
        """Return the first index and the value of each group."""
        group, first, value = 0, [], []
        while group < len(self.version):
            first.append(self.first[group])
            value.append(self._at(group, penalty))
            group = self.right[group]
        return np.array(first), np.array(value)
