"""Boosting of corrections for overlapping groups of samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_calib._numerics.binning import bin_index, check_most_bins, interior_edges
from sklearn_calib._numerics.softmax import softmax
from sklearn_calib._state.json_values import refuse
from sklearn_calib._state.schema import NON_NEGATIVE, Count, Numbers
from sklearn_calib._validation.declarations import ABOVE_0, COUNT, Interval, StrOptions
from sklearn_calib._validation.types import Floats, Ints
from sklearn_calib.calibrators._base.calibrator import Calibrator
from sklearn_calib.calibrators._groups.group_calibrator import GroupCalibrator
from sklearn_calib.calibrators._linear.empirical_bayes import likelihood_ratios
from sklearn_calib.calibrators._linear.linear_calibrator import EMPIRICAL_BAYES

# Variances of the prior among which the one with the largest likelihood is chosen. As
# the largest is 1, a group may lack a class.
VARIANCES = np.geomspace(1e-4, 1, 21)
# Twice the gain of the log-likelihood that a variance must bring: Akaike's criterion.
LEAST_RATIO = 2.0
# In later passes, the variances stay the same, so that the effects converge.
N_ESTIMATES = 5
# A smaller precision is as good as none, and products with its inverse would overflow.
LEAST_LAMBD = 1e-100
# No step is longer.
LONGEST_STEP = 1.0


class MulticalibrationBoosting(GroupCalibrator):
    r"""Multicalibration by boosting: calibration in overlapping groups.

    A calibrator is fitted to all samples. Then its log-probabilities are corrected for
    one column of groups after the other, until the residuals are small in all groups
    and in all intervals of the predicted probability within groups. Corrections that
    the samples do not support are shrunk towards none.

    Each column of `groups` is a partition of the samples, such as by sex or by age
    band, and a sample belongs to one group of each column, so groups of different
    columns overlap.

    Parameters
    ----------
    calibrator : Calibrator, default=None
        Calibrator to clone and to fit to all samples; None is :class:`AutoCalibrator`.
        The `from_logits` of the clone is set to that of this calibrator.

    n_bins : int, default=10
        Number of bins of the probability of each class, with equal numbers of samples.
        Each group has a correction in each bin.

    lambd : float or "empirical_bayes", default="empirical_bayes"
        Strength of the shrinkage: the precision of the prior of each correction, which
        is normal with standard deviation 1 / sqrt(lambd). "empirical_bayes" estimates
        a strength for each column and each kind of correction.

    max_iter : int, default=20
        Largest number of passes over the columns.

    tol : float, default=0.01
        `fit` ends when no shift or scale changes by `tol` or more in a pass over the
        columns. With 0, there are `max_iter` passes.

    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    calibrator_ : Calibrator
        The calibrator that is fitted to all samples.

    shift_ : ndarray of shape (n_groups, n_bins, n_classes)
        Shifts of the logits of each group, for each bin of the probability of the
        class. The groups are the values of all columns, see `groups_`.

    scale_ : ndarray of shape (n_groups,)
        Factor of the logits of each group, minus one.

    groups_ : list of tuple
        Name or index of the column, and value, of each group. None stands for a missing
        value.

    bin_edges_ : ndarray of shape (n_classes, n_bins - 1)
        Edges between the bins of the logarithm of each probability.

    variance_ : ndarray of shape (n_group_columns, 3)
        Variances of the priors on shifts of groups, on scales, and on shifts of bins of
        groups. A column without corrections of a kind has the variance 0.

    n_iter_ : int
        Number of passes over the columns.

    values_ : list of ndarray
        Distinct values of each column of `groups`, sorted, without missing values.

    group_names_in_ : ndarray of shape (n_group_columns,)
        Names of the columns of `groups`. Defined only if they are strings.

    classes_ : ndarray of shape (n_classes,)
        Class label of each column.

    n_features_in_ : int
        Number of columns of X: `n_classes`, or 1.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X. Defined only if they are strings.

    n_errors_ : float
        Number of misclassified samples in `fit`, see :class:`Calibrator`.

    See Also
    --------
    PerGroupCalibrator : A map for each combination of the columns.
    sklearn_calib.CalibratedClassifier : Its parameter `groups` selects columns of X.
    sklearn_calib.metrics.per_group : Any metric for each group.

    Notes
    -----
    A predictor is multicalibrated if its residuals average to zero in each group and
    each interval of the predicted probability [1]_. Like the algorithm of [1]_, which
    looks for a group and an interval with a large mean residual and removes it, this is
    gradient boosting whose weak learners are functions of the group. Let
    :math:`q_{ik}` be the probability of class k for sample i after calibration without
    groups, and :math:`z_{ik}` its logarithm minus the mean of the logarithms for all
    classes. The corrected probabilities are

    .. math:: \mathrm{softmax}_k\Big(z_{ik} + \sum_j (a_{gk} + b_g z_{ik} + c_{gtk})
        \Big),

    where :math:`g` is the group of the sample in column j, and t the bin of
    :math:`q_{ik}`. The shifts :math:`a` and the scales :math:`b` make the residuals of
    each group uncorrelated with its scores, similar to low-degree multicalibration
    [2]_, which needs fewer samples. The shifts :math:`c` of bins correct what remains.
    The bins are those of the probabilities before the correction.

    The three kinds of corrections of each column are updated in turn, by a Newton step
    with a normal prior. The variance of each prior maximises the marginal likelihood,
    in which the log loss is approximated by a parabola [3]_. If this increases twice
    the log-likelihood by less than 2, the variance is zero. Therefore, neither a
    validation set nor random numbers are needed, and if all groups are calibrated, most
    columns are not corrected. The curvature of the log loss with respect to shifts is
    replaced by an upper bound, which is exact for two classes.

    A missing value is a group. A value that did not occur in `fit` is not corrected for
    its column. Numeric columns must be binned, by `pandas.qcut` for example, as each
    value is a group. To correct an intersection of groups, such as of sex and age, add
    a column with the combinations of both.

    References
    ----------
    .. [1] Ú. Hébert-Johnson, M. P. Kim, O. Reingold and G. N. Rothblum,
       "Multicalibration: Calibration for the (Computationally-Identifiable) Masses",
       ICML 2018, algorithm 1.

    .. [2] P. Gopalan, M. P. Kim, M. Singhal and S. Zhao, "Low-Degree Multicalibration",
       COLT 2022.

    .. [3] N. E. Breslow and D. G. Clayton, "Approximate Inference in Generalized Linear
       Mixed Models", Journal of the American Statistical Association 88, 1993.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import MulticalibrationBoosting, PlattScaling
    >>> rng = np.random.default_rng(0)
    >>> groups = rng.choice(["a", "b"], size=(4000, 2))
    >>> logits = rng.normal(size=4000)
    >>> bias = np.where(groups == "a", [1, 0.5], [-1, -0.5]).sum(axis=1)
    >>> y = logits + bias + rng.logistic(size=4000) > 0
    >>> calibrator = MulticalibrationBoosting(PlattScaling(), from_logits=True)
    >>> calibrator = calibrator.fit(logits, y, groups=groups)
    >>> groups = [["a", "a"], ["a", "b"], ["b", "b"], ["a", "other"]]
    >>> calibrator.predict_proba(np.zeros(4), groups=groups).round(1)
    array([[0.2, 0.8],
           [0.4, 0.6],
           [0.8, 0.2],
           [0.3, 0.7]])
    """

    _fitted = {
        "shift_": Numbers("n_groups", "n_edges + 1", "n_classes"),
        "scale_": Numbers("n_groups"),
        "bin_edges_": Numbers("n_classes", "n_edges"),
        "variance_": Numbers("n_group_columns", 3, range=NON_NEGATIVE),
        "n_iter_": Count("n_iter_"),
    }
    _parameter_constraints = {
        **GroupCalibrator._parameter_constraints,
        "n_bins": COUNT,
        "lambd": [*ABOVE_0, StrOptions({EMPIRICAL_BAYES})],
        "max_iter": COUNT,
        "tol": [Interval(Real, 0, np.inf, closed="left")],
    }

    def __init__(
        self,
        calibrator: Calibrator | None = None,
        *,
        n_bins: int = 10,
        lambd: float | str = EMPIRICAL_BAYES,
        max_iter: int = 20,
        tol: float = 0.01,
        from_logits: bool = False,
    ) -> None:
        self.calibrator = calibrator
        self.n_bins = n_bins
        self.lambd = lambd
        self.max_iter = max_iter
        self.tol = tol
        self.from_logits = from_logits

    @property
    def groups_(self) -> list[tuple[int, Any]]:
        """The column and value of each group."""
        check_is_fitted(self)
        names = getattr(self, "group_names_in_", np.arange(len(self.values_))).tolist()
        return [
            (name, value)
            for name, known in zip(names, self.values_, strict=True)
            for value in (*known.tolist(), None)
        ]

    def _fit_groups(
        self, logits: Floats, codes: Ints, weight: Floats, groups: Ints
    ) -> None:
        check_most_bins(self.n_bins, len(logits))
        counted = weight > 0
        logits, codes, weight = logits[counted], codes[counted], weight[counted]
        edges_of = partial(
            interior_edges,
            n_bins=self.n_bins,
            strategy="quantile",
            sample_weight=weight,
        )
        self.bin_edges_ = np.array([edges_of(column) for column in logits.T])
        scores, bins = _centred(logits), self._bins(logits)
        no_bins = np.zeros_like(bins[:1])
        variance = None
        if not isinstance(self.lambd, str):
            variance = 1 / max(self.lambd, LEAST_LAMBD)
        columns = []
        for group, size in zip(groups[counted].T, self._sizes(), strict=True):
            columns.append(
                (
                    Shifts(group, size, no_bins, 1, variance),
                    Scales(group, size, scores, variance),
                    Shifts(group, size, bins, self.n_bins, variance),
                )
            )
        effects = [kind for column in columns for kind in column]
        self.n_iter_ = fit_effects(
            effects, scores, codes, weight, max_iter=self.max_iter, tol=self.tol
        )
        self.variance_ = np.array([[e.variance for e in column] for column in columns])
        self.shift_ = np.vstack(
            [overall.table() + cells.table() for overall, _, cells in columns]
        )
        self.scale_ = np.concatenate([scales.value for _, scales, _ in columns])

    def _correct(self, logits: Floats, groups: Ints) -> Floats:
        scores, bins = _centred(logits), self._bins(logits)
        columns, corrected, first = np.arange(logits.shape[1]), scores.copy(), 0
        for group, size in zip(groups.T, self._sizes(), strict=True):
            known = group >= 0
            row = first + group[known, None]
            corrected[known] += self.shift_[row, bins[known], columns]
            corrected[known] += self.scale_[row] * scores[known]
            first += size
        return softmax(corrected)

    def _sizes(self) -> list[int]:
        """Return the number of groups of each column, with that of missing values."""
        return [len(known) + 1 for known in self.values_]

    def _set_state(self, state: dict[str, Any]) -> None:
        super()._set_state(state)
        if len(self.scale_) != sum(self._sizes()):
            wanted = f"{sum(self._sizes())} groups, as in values_"
            refuse("scale_", wanted, len(self.scale_))

    def _bins(self, logits: Floats) -> Ints:
        """Return the bin of the probability of each class."""
        pairs = zip(logits.T, self.bin_edges_, strict=True)
        return np.column_stack([bin_index(column, edges) for column, edges in pairs])


def _centred(logits: Floats) -> Floats:
    return logits - logits.mean(axis=1, keepdims=True)


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
    *,
    max_iter: int,
    tol: float,
) -> int:
    """Fit effects in turn, by Newton steps; return the number of passes over them.

    The first pass starts with the effects that have the largest likelihood ratio, so
    that the result does not depend on their order.
    """
    logits = logits.copy()

    def read(kind: Effects) -> tuple[Floats, Floats]:
        proba = softmax(logits)
        residual = -weight[:, None] * proba
        residual[np.arange(len(codes)), codes] += weight
        gradient, curvature = kind.derivatives(proba, residual, weight)
        return curvature, curvature * kind.value + gradient

    def update(kind: Effects, n_iter: int) -> float:
        curvature, pull = read(kind)
        if n_iter < N_ESTIMATES:
            kind.estimate(curvature, pull)
        goal = pull * (kind.variance / (1 + kind.variance * curvature))
        step = np.clip(goal - kind.value, -LONGEST_STEP, LONGEST_STEP)
        kind.value += step
        logits[...] += kind.changes(step)
        return float(np.abs(step).max())

    ordered = sorted(effects, key=lambda kind: -kind.estimate(*read(kind)))
    n_iter, change = 0, np.inf
    while n_iter < max_iter and change >= tol:
        change = max([update(kind, n_iter) for kind in ordered])
        n_iter += 1
    return n_iter


def _sums(index: Ints, values: Floats, size: int) -> Floats:
    return np.bincount(index, values, size).astype(np.float64, copy=False)
