"""Near-isotonic regression: the solution path from the data to isotonic regression."""

import heapq
from collections.abc import Iterator
from typing import Any

import numpy as np

from sklearn_calib._validation.types import Array, Floats, Ints


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
        gap = self._at(right, now) - self._at(group, now)
        closing = self.slope[group] - self.slope[right]
        if closing == 0 or (closing < 0) != bool(self.falls[group]):
            return []
        # Because of rounding errors, the gap may already be negative.
        return [(now + max(0.0, gap / closing), group, self.versions(group))]

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
