"""Additive effects of groups on logits, shrunk by normal priors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from sklearn_calib._numerics.softmax import softmax
from sklearn_calib._validation.types import Floats, Ints
from sklearn_calib.calibrators._linear.marginal_likelihood import likelihood_ratios

# Variances of the prior among which the one with the largest likelihood is chosen. As
# the largest is 1, a group may lack a class.
VARIANCES = np.geomspace(1e-4, 1, 21)
# Twice the gain of the log-likelihood that a variance must bring: Akaike's criterion.
LEAST_RATIO = 2.0
# In later passes, the variances stay the same, so that the effects converge.
N_ESTIMATES = 5
# No step is longer. The search ends when no effect changes by more than the tolerance.
LONGEST_STEP, TOLERANCE = 1.0, 0.01


class Effects(ABC):
    """Effects of one kind that have the same prior.

    Parameters
    ----------
    size : int
        Number of effects.

    variance : float, default=None
        Variance of the prior. None: the estimate.
    """

    # Number of independent effects divided by their number.
    share: float

    def __init__(self, size: int, variance: float | None = None) -> None:
        self.value = np.zeros(size)
        self.variance = 0.0 if variance is None else variance
        self.is_estimated = variance is None

    @abstractmethod
    def derivatives(
        self, proba: Floats, residual: Floats, weight: Floats
    ) -> tuple[Floats, Floats]:
        """Return gradient and curvature of the log-likelihood for each effect."""

    @abstractmethod
    def changes(self, step: Floats) -> Floats:
        """Return the changes of the logits by changes of the effects."""

    def estimate(self, curvature: Floats, pull: Floats) -> float:
        """Estimate the variance, unless it is known; return the likelihood ratio."""
        levels = VARIANCES if self.is_estimated else np.array([self.variance])
        # One at a time, to save memory.
        ratios = [
            float(likelihood_ratios(level, curvature, pull, self.share))
            for level in levels
        ]
        best = int(np.argmax(ratios))
        if self.is_estimated:
            is_enough = ratios[best] > LEAST_RATIO
            self.variance = float(levels[best]) if is_enough else 0.0
        return ratios[best]


class Shifts(Effects):
    """Shifts of logits, for each group, each bin, and each class.

    `bins`, of shape (n_samples, n_classes), contains the bin of each logit. If all have
    the same bin, one row is enough.
    """

    share = 0.5

    def __init__(
        self,
        group: Ints,
        n_groups: int,
        bins: Ints,
        n_bins: int,
        variance: float | None = None,
    ) -> None:
        self._shape = n_groups, n_bins, bins.shape[1]
        super().__init__(n_groups * n_bins * bins.shape[1], variance)
        self._group, self._bins = group, bins

    def _index(self) -> Ints:
        """Return the index of each shift, which is not kept, to save memory."""
        _, n_bins, n_classes = self._shape
        index: Ints = self._group[:, None] * n_bins + self._bins
        index *= n_classes
        index += np.arange(n_classes)
        return index

    def derivatives(
        self, proba: Floats, residual: Floats, weight: Floats
    ) -> tuple[Floats, Floats]:
        # The Fisher information of the logits of a sample is at most twice its
        # diagonal, which is its value for two classes.
        curvature = 2 * weight[:, None] * proba * (1 - proba)
        index, size = self._index().ravel(), len(self.value)
        gradient = _sums(index, residual.ravel(), size)
        return gradient, _sums(index, curvature.ravel(), size)

    def changes(self, step: Floats) -> Floats:
        return step[self._index()]

    def table(self) -> Floats:
        """Return the shifts as an array of shape (n_groups, n_bins, n_classes)."""
        return self.value.reshape(self._shape)


class Scales(Effects):
    """Factors of the scores of each group, minus one."""

    share = 1.0

    def __init__(
        self,
        group: Ints,
        n_groups: int,
        scores: Floats,
        variance: float | None = None,
    ) -> None:
        super().__init__(n_groups, variance)
        self._group, self._scores = group, scores

    def derivatives(
        self, proba: Floats, residual: Floats, weight: Floats
    ) -> tuple[Floats, Floats]:
        mean = (proba * self._scores).sum(axis=1, keepdims=True)
        spread = (proba * (self._scores - mean) ** 2).sum(axis=1)
        gradient, size = (residual * self._scores).sum(axis=1), len(self.value)
        curvature = _sums(self._group, weight * spread, size)
        return _sums(self._group, gradient, size), curvature

    def changes(self, step: Floats) -> Floats:
        return step[self._group, None] * self._scores


def fit_effects(
    effects: Sequence[Effects],
    logits: Floats,
    codes: Ints,
    weight: Floats,
    max_iter: int,
) -> int:
    """Fit effects in turn, by Newton steps; return the number of passes over them.

    The first pass starts with the effects that have the largest likelihood ratio, so
    that the result does not depend on their order.
    """
    logits = logits.copy()

    def read(each: Effects) -> tuple[Floats, Floats]:
        proba = softmax(logits)
        residual = -weight[:, None] * proba
        residual[np.arange(len(codes)), codes] += weight
        gradient, curvature = each.derivatives(proba, residual, weight)
        return curvature, curvature * each.value + gradient

    def update(each: Effects, n_iter: int) -> float:
        curvature, pull = read(each)
        if n_iter < N_ESTIMATES:
            each.estimate(curvature, pull)
        goal = pull * (each.variance / (1 + each.variance * curvature))
        step = np.clip(goal - each.value, -LONGEST_STEP, LONGEST_STEP)
        each.value += step
        logits[...] += each.changes(step)
        return float(np.abs(step).max())

    ordered = sorted(effects, key=lambda each: -each.estimate(*read(each)))
    n_iter, change = 0, np.inf
    while n_iter < max_iter and change >= TOLERANCE:
        change = max([update(each, n_iter) for each in ordered])
        n_iter += 1
    return n_iter


def _sums(index: Ints, values: Floats, size: int) -> Floats:
    return np.bincount(index, values, size).astype(np.float64, copy=False)
