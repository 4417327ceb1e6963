"""Base classes of vector, matrix, Dirichlet and structured scaling."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib._expressions.rows import softmax
from sklearn_calib._expressions.symbol import Values
from sklearn_calib._numerics.sample_blocks import KEPT_SIZE, Blocks, as_float64, joined
from sklearn_calib._numerics.softmax import log_softmax
from sklearn_calib._sklearn.training_data import warn_of_absent_classes
from sklearn_calib._solvers.temperature_fit import bounded_temperature, fit_temperature
from sklearn_calib._state.schema import NON_NEGATIVE, POSITIVE, Number, Numbers, Spec
from sklearn_calib._validation.arrays import as_numbers, shown
from sklearn_calib._validation.declarations import Interval, StrOptions
from sklearn_calib._validation.fit_warnings import warn
from sklearn_calib._validation.types import Floats, Ints
from sklearn_calib.calibrators._base.calibrator import Calibrator
from sklearn_calib.calibrators._linear.empirical_bayes import (
    fit_empirical_bayes,
    fit_empirical_bayes_without,
)
from sklearn_calib.calibrators._linear.multinomial_fit import ROUGH, fit_multinomial

N_FOLDS = 5
# Candidates for "cv", from the strongest to the weakest.
STRENGTHS = (1e3, 1e2, 1e1, 1.0, 1e-1, 1e-2, 1e-3, 1e-4)

# Features between 2**-10 and 2**10 are not rescaled.
ORDINARY = 10

STRENGTH = Interval(Real, 0, np.inf, closed="left")

# Estimates the strengths of priors around temperature scaling.
EMPIRICAL_BAYES = "empirical_bayes"


def errors_needed(number: int, power: float) -> property:
    """Return the property `_errors_needed`, which empirical Bayes reduces."""
    return property(
        lambda self: (10, 0) if self._uses_empirical_bayes else (number, power)
    )


class _MultinomialCalibrator(Calibrator):
    """Base class of the maps softmax(W x + b), where x are features of the logits.

    A subclass defines the kind of its map (`_kind`), the features (`_features`), and
    the penalty of each parameter (`_ridge`).
    """

    _parameter_constraints = {
        **Calibrator._parameter_constraints,
        "lambd": [STRENGTH, StrOptions({"cv"}), "array-like"],
    }

    # Whether the priors are around temperature scaling, whose temperature is fitted.
    _has_temperature = True

    lambd_: float
    prior_precision_: Floats

    @property
    def _fitted(self) -> dict[str, Spec]:
        n_groups = int(self._kind.groups(2).max()) + 1
        return {
            "coef_": Numbers(*self._kind.coef_shape),
            "intercept_": Numbers("n_classes"),
            "lambd_": Number(NON_NEGATIVE, is_optional=True),
            "mu_": Number(NON_NEGATIVE, is_optional=True),
            "prior_precision_": Numbers(n_groups, range=POSITIVE, is_optional=True),
            "log_loss_before_": Number(NON_NEGATIVE),
            "log_loss_after_": Number(NON_NEGATIVE),
        }

    @property
    @abstractmethod
    def _uses_empirical_bayes(self) -> bool:
        """Whether the strengths of priors around temperature scaling are estimated."""

    @abstractmethod
    def _features(self, logits: Values) -> Values:
        """Return the features of the map, in the dtype of the logits."""

    @abstractmethod
    def _ridge(
        self, identity: Floats, n_samples: float, lambd: float, mu: Any
    ) -> Floats:
        """Return the strength of the penalty on each parameter."""

    def _strengths(self) -> list[Any]:
        """Return all candidate pairs (lambd, mu)."""
        return [(lambd, None) for lambd in _as_sequence("lambd", self.lambd)]

    def _fit(self, data: Blocks, fitted: Self | None = None) -> None:
        self._fit_from(self._begin(data), fitted)

    @abstractmethod
    def _fit_from(self, logits: Blocks, fitted: Self | None) -> None:
        """Fit the map, with the priors of one that was fitted to more samples."""

    def _takes_steps(self, parts: Sequence[Blocks]) -> bool:
        """Return whether `_steps_without` is fast and needs little memory."""
        size = self._parameters().size
        return size <= self._kind.max_dense and len(parts) * size**2 <= KEPT_SIZE

    def _steps_without(self, parts: Sequence[Blocks]) -> Iterator[Self]:
        """Yield the map after a Newton step of the fit without each part."""
        logits = [part.transform(as_float64) for part in parts]
        features = [part.transform(self._features).kept() for part in logits]
        scale = self._scale(joined(logits))
        scaled = [_divided(part, scale).kept() for part in features]
        for parameters in self._fit_without(scaled, scale):
            new = copy(self)
            new._set_map(parameters, scale)
            yield new

    def _scale(self, logits: Blocks) -> float:  # noqa: ARG002 - see a subclass
        """Return by what the features are divided to fit the map to them."""
        return 1.0

    def _fit_without(self, parts: Sequence[Blocks], scale: float) -> Iterator[Floats]:
        """Yield the parameters without each part of the features, see `fit_without`."""
        center = self._kind.identity(len(self.classes_))
        return fit_empirical_bayes_without(
            self._kind,
            parts,
            center=center,
            prior=self.prior_precision_[self._kind.groups(len(center))],
            fitted=self._parameters(scale),
            scale_is_free=self._has_temperature,
        )

    def _parameters(self, scale: float = 1.0) -> Floats:
        """Return the parameters of the fitted map for features that are divided."""
        return np.column_stack([self.coef_ * scale, self.intercept_])

    def _fit_empirical_bayes(
        self, features: Blocks, fitted: Self | None, scale: float = 1.0
    ) -> Floats:
        """Return the parameters for features whose temperature is one."""
        n_classes = len(features.sizes)
        known: Any = {}
        if fitted is not None:
            known = {"precision": fitted.prior_precision_}
            known["start"] = fitted._parameters(scale)
        (parameters,), self.prior_precision_ = fit_empirical_bayes(
            self._kind,
            [features.normalised()],
            center=self._kind.identity(n_classes),
            group=self._kind.groups(n_classes),
            **known,
        )
        return parameters

    def _fit_penalised(
        self,
        data: Blocks,
        center: Floats,
        start: Floats,
        scale: float,
        fitted: Self | None,
    ) -> Floats:
        """Return the parameters for scaled features, after choosing the strength."""
        pairs = self._strengths()
        if fitted is not None:
            pairs = [(fitted.lambd_, getattr(fitted, "mu_", None))]
            start = fitted._parameters(scale)
        if len(pairs) > 1:
            losses = sum(
                self._held_out(train, test, center, start, scale, pairs)
                for train, test in make_folds(data)
            )
            pairs = [pairs[int(np.argmin(losses))]]
        self.lambd_, mu = pairs[0]
        if mu is not None:
            self.mu_ = mu
        ridge = self._ridge(center, data.weight_sum, *pairs[0])
        parameters, has_converged = fit_multinomial(
            self._kind,
            data.normalised().kept(),
            ridge=_in_scale(ridge, scale),
            center=center,
            start=start,
            tolerance=None if fitted is None else ROUGH,
        )
        if not has_converged:
            warn(
                f"{type(self).__name__} did not converge with lambd={pairs[0][0]:g}. "
                "Use a larger lambd, or more samples.",
                ConvergenceWarning,
            )
        return parameters

    def _held_out(
        self,
        train: Blocks,
        test: Blocks,
        center: Floats,
        start: Floats,
        scale: float,
        pairs: list[Any],
    ) -> Floats:
        """Return the summed log loss of a held-out fold, for each strength."""
        sums = np.zeros(len(pairs))
        if train.weight_sum == 0:
            return sums
        normalised = train.normalised().kept()
        for i, pair in enumerate(pairs):
            start, _ = fit_multinomial(
                self._kind,
                normalised,
                ridge=_in_scale(self._ridge(center, train.weight_sum, *pair), scale),
                center=center,
                start=start,
            )
            sums[i] = _loss_sum(test, self._kind, start)
        return sums

    def _set(
        self, parameters: Floats, logits: Blocks, features: Blocks, scale: float = 1.0
    ) -> None:
        """Set the fitted attributes, given parameters for features that are divided."""
        before = _loss_sum(logits) / logits.weight_sum
        after = _loss_sum(features, self._kind, parameters) / logits.weight_sum
        self.log_loss_before_, self.log_loss_after_ = float(before), float(after)
        self._set_map(parameters, scale)

    def _set_map(self, parameters: Floats, scale: float = 1.0) -> None:
        """Set the map, given parameters for features that are divided."""
        self.coef_, self.intercept_ = parameters[:, :-1] / scale, parameters[:, -1]
        if self.coef_.shape[1] == 1:
            self.coef_ = self.coef_[:, 0]

    def _calibrate(self, logits: Values) -> Values:
        parameters = self._parameters()
        # The order in memory of coef_ is lost in files, and changes the last digit.
        parameters = parameters.astype(logits.dtype, order="C")
        return softmax(self._kind.scores(self._features(logits), parameters))

    def _begin(self, data: Blocks) -> Blocks:
        """Return the logits in float64, after warning of classes without samples."""
        warn_of_absent_classes(
            self.classes_[data.counts == 0],
            f"{type(self).__name__} makes their probabilities as small as its penalty "
            "allows",
        )
        return data.transform(as_float64)


class _PenalisedCalibrator(_MultinomialCalibrator):
    """Base class of the maps with no penalty, L2 or ODIR."""

    _parameter_constraints: dict[str, list[Any]] = {
        **_MultinomialCalibrator._parameter_constraints,
        "penalty": [StrOptions({"l2", "none", "odir", EMPIRICAL_BAYES})],
        "mu": [None, STRENGTH, StrOptions({"cv"}), "array-like"],
    }

    def __init__(
        self,
        *,
        penalty: str = "none",
        lambd: ArrayLike = "cv",
        mu: ArrayLike | None = None,
        from_logits: bool = False,
    ) -> None:
        self.penalty = penalty
        self.lambd = lambd
        self.mu = mu
        self.from_logits = from_logits

    def _fit_from(self, logits: Blocks, fitted: Self | None) -> None:
        self._strengths()  # Validates them even without a penalty.
        features = logits.transform(self._features).kept()
        if self._uses_empirical_bayes:
            scale = self._scale(logits)
            features = _divided(features, scale)
            parameters = self._fit_empirical_bayes(features, fitted, scale)
            self._set(parameters, logits, features, scale)
            return
        start = self._start(logits, features)
        is_free = self.penalty == "none"
        # With a penalty, slopes of small features are zero, so they are not rescaled.
        largest = np.array([np.abs(block.logits).max() for block in features])
        scale = max(_magnitude(largest), 0.0 if is_free else 1.0)
        if scale != 1:
            features = _divided(features, scale)
            start[:, :-1] *= scale
        if is_free:
            parameters = self._fit_unpenalised(features, start)
        else:
            center = np.zeros_like(start)
            parameters = self._fit_penalised(features, center, start, scale, fitted)
        self._set(parameters, logits, features, scale)

    def _scale(self, logits: Blocks) -> float:
        return fit_temperature(logits) if self._has_temperature else 1.0

    def _takes_steps(self, parts: Sequence[Blocks]) -> bool:
        return self._uses_empirical_bayes and super()._takes_steps(parts)

    @property
    def _uses_empirical_bayes(self) -> bool:
        return self.penalty == EMPIRICAL_BAYES

    def _start(self, logits: Blocks, features: Blocks) -> Floats:
        """Return temperature scaling or the identity, whichever has the lower log loss.

        If features only differ by rounding errors, temperature scaling amplifies them.
        """
        temperature, _ = bounded_temperature(logits)
        identity = self._kind.identity(len(logits.sizes))
        start = identity / temperature
        scaled = _loss_sum(features, self._kind, start)
        return start if scaled < _loss_sum(logits) else identity

    def _features(self, logits: Values) -> Values:
        """Return logits centred in each row, to remove a constant added to a row."""
        return logits - logits.mean(axis=1, keepdims=True)

    def _fit_unpenalised(self, features: Blocks, start: Floats) -> Floats:
        """Return the maximum likelihood estimate, or a MAP estimate if none exists."""
        problem = self._kind, features.normalised().kept()
        ridge = np.zeros_like(start)
        if features.counts.min() >= start.shape[1]:
            parameters, has_converged = fit_multinomial(
                *problem, ridge=ridge, center=start, start=start
            )
            if has_converged:
                return parameters
        # Priors under which the variance of a score is two: one from all its weights,
        # and one from its intercept.
        squares: Any = sum(
            self._kind.mean_squares(block.logits, block.weight) for block in problem[-1]
        )
        ridge[:, :-1] = squares * (start.shape[1] - 1)
        ridge[:, -1] = 1
        ridge /= 2 * features.weight_sum
        parameters, _ = fit_multinomial(
            *problem, ridge=ridge, center=start, start=start
        )
        warn(
            "The log loss has no minimum, as the classes are separable, or a class has "
            f"fewer than {start.shape[1]} samples. {type(self).__name__} was shrunk "
            'towards temperature scaling. Use penalty="l2" or "odir", or more samples.',
            ConvergenceWarning,
        )
        return parameters

    def _strengths(self) -> list[Any]:
        lambdas = _as_sequence("lambd", self.lambd)
        mus = None if self.mu is None else _as_sequence("mu", self.mu)
        if self.penalty == "l2":
            return [(lambd, None) for lambd in lambdas]
        if mus is None:
            return [(lambd, lambd) for lambd in lambdas]
        return list(itertools.product(lambdas, mus))

    def _ridge(
        self,
        identity: Floats,
        n_samples: float,  # noqa: ARG002 - see the parent
        lambd: float,
        mu: Any,
    ) -> Floats:
        n_classes = len(identity)
        if self.penalty == "l2":
            return np.full_like(identity, lambd)
        off_diagonal = lambd / (n_classes * (n_classes - 1))
        return make_ridge(identity, off_diagonal, 0.0, mu / n_classes)


def _magnitude(values: Floats) -> float:
    """Return the power of two next to the largest absolute value; 1 for usual values.

    Features that are divided by it have curvatures of about the size of an intercept's.
    """
    exponent = math.frexp(max(values.max(), -values.min()))[1] - 1
    return 1.0 if abs(exponent) <= ORDINARY else math.ldexp(1.0, exponent)


def _divided(features: Blocks, scale: float) -> Blocks:
    return features.transform(lambda values: values / scale)


def make_ridge(
    identity: Floats, off_diagonal: float, diagonal: float, intercept: float
) -> Floats:
    """Return the strength of the penalty on each parameter of a map."""
    is_diagonal = identity.shape[1] == 2
    ridge = np.full_like(identity, diagonal if is_diagonal else off_diagonal)
    if not is_diagonal:
        np.fill_diagonal(ridge, diagonal)
    ridge[:, -1] = intercept
    return ridge


def _in_scale(ridge: Floats, scale: float) -> Floats:
    """Return the strength for features that are divided by a scale."""
    return np.column_stack([ridge[:, :-1] / scale**2, ridge[:, -1]])


def _as_sequence(name: str, value: Any) -> Sequence[float]:
    """Return the candidate strengths in decreasing order."""
    if isinstance(value, str):
        return STRENGTHS
    values = np.unique(as_numbers(value, name).astype(np.float64))[::-1]
    if len(values) == 0 or not 0 <= values[-1] <= values[0] < np.inf:
        raise ValueError(
            f"{name} must contain non-negative numbers, got {shown(value)}. Pass a "
            'number, a sequence to choose from by cross-validation, or "cv".'
        )
    return values.tolist()


def make_folds(data: Blocks) -> Iterator[tuple[Blocks, Blocks]]:
    """Yield the training and the held-out samples of stratified folds."""
    fold = np.concatenate(list(_folds(data)))
    for k in range(N_FOLDS):
        yield data.select(fold != k), data.select(fold == k)


def _folds(data: Blocks) -> Iterator[Ints]:
    """Yield the fold of each sample, for each block.

    If samples are sorted by class, each goes to the fold after that of the previous
    one. This depends on earlier samples only, and on the size of each class.
    """
    following = data.sizes.cumsum() - data.sizes
    for block in data:
        n_seen = np.bincount(block.codes, minlength=len(following))
        order = np.argsort(block.codes, kind="stable")
        first = np.repeat(following - (n_seen.cumsum() - n_seen), n_seen)
        fold = np.empty(len(order), dtype=np.int8)
        fold[order] = (first + np.arange(len(order))) % N_FOLDS
        following = following + n_seen
        yield fold


def _loss_sum(data: Blocks, kind: Any = None, parameters: Any = None) -> float:
    """Return the weighted sum of log losses of logits, or of a map of features."""
    total = 0.0
    for values, codes, weight in data:
        scores = values if kind is None else kind.scores(values, parameters)
        likelihood = log_softmax(scores)[np.arange(len(codes)), codes]
        total -= float(weight @ likelihood)
    return total
