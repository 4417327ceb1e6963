"""Calibrators that are updated with new samples, by online Newton steps.

The log loss of past samples is replaced by its quadratic expansion around the
parameters that were fitted when they were new. The next batch adds its exact log loss
to the sum of these expansions, and is then expanded itself.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_consistent_length

from sklearn_calib._numerics.sample_blocks import Block, Blocks, array_blocks
from sklearn_calib._sklearn.rollback import restores
from sklearn_calib._solvers.newton import solve_jittered
from sklearn_calib._state.json_values import refuse
from sklearn_calib._state.schema import NON_NEGATIVE, Fields, Numbers, Size, Spec
from sklearn_calib._validation.arrays import check_numbers, on_cpu, shorten, shown
from sklearn_calib._validation.fit_warnings import without_warnings
from sklearn_calib._validation.labels import (
    as_labels,
    distinct_labels,
    encode_array,
)
from sklearn_calib._validation.samples import check_columns, check_order
from sklearn_calib._validation.types import Array, Floats
from sklearn_calib.calibrators._base.calibrator import Calibrator
from sklearn_calib.calibrators._base.input_data import (
    InputSummary,
    check_chunk_weight,
    logits_of,
    set_summary,
)

# So many samples are kept, and fitted again in each call: the expansion of the log loss
# is only precise near its minimum.
N_KEPT = 1000

# Returns the summed log loss for parameters of shape (n_parameters,), its gradient and
# its Hessian.
LossParts: TypeAlias = Callable[[Floats], tuple[float, Floats, Floats]]

MAX_STEPS = 100
# Newton's method ends when a step would gain less (in nats).
LITTLE = 1e-12
SHORTEST = 1e-10


class OnlineParameters(NamedTuple):
    """The parameters of the maps that `partial_fit` updates, (n_maps, n_parameters).

    There is one row for each one-vs-rest map, or a single row. `losses` returns the log
    loss of each map for a block of logits in float64.
    """

    fitted: Floats
    identity: Floats  # of the maps that change nothing
    lowest: Floats  # lower bounds
    losses: Callable[[Block], list[LossParts]]


class _OnlineCalibrator(Calibrator):
    """Base class of calibrators with `partial_fit`.

    A subclass defines `_online_parameters` and `_set_parameters`, and adds `_past` to
    `_fitted`.

    The attribute `_past_counts` contains the weights of the past samples of each class.
    Either `_past_samples` contains these samples, with the weight of each in the column
    of its class, or `_past_loss` the expansion of their log loss.
    """

    _past_counts: Floats
    _past_samples: dict[str, Floats]
    _past_loss: dict[str, Floats]

    def _past(self, n_maps: Size, n_parameters: Size) -> dict[str, Spec]:
        """Return the schema of what is known of past samples."""
        weights = Numbers("n_kept", "n_classes", range=NON_NEGATIVE)
        scores = Numbers("n_kept", "n_classes") if self.from_logits else weights
        return {
            "_past_counts": Numbers("n_classes", range=NON_NEGATIVE, is_optional=True),
            "_past_samples": Fields(scores=scores, weights=weights),
            "_past_loss": Fields(
                curvature=Numbers(n_maps, n_parameters, n_parameters),
                target=Numbers(n_maps, n_parameters),
            ),
        }

    def _set_state(self, state: dict[str, Any]) -> None:
        super()._set_state(state)
        if "_past_counts" not in state:
            return
        known = [name for name in ("_past_samples", "_past_loss") if name in state]
        if len(known) != 1:
            refuse("_past_counts", "saved with _past_samples or with _past_loss", known)
        self._settings_seen = str(self.get_params())

    @restores()
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
        half_life: float | None = None,
    ) -> Self:
        """Update the calibrator with new samples.

        The first call starts a new fit, and further calls continue it. With
        `half_life=None`, the result approaches that of a `fit` to the samples of all
        calls.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
            Predictions of the classifier for the new samples, in the same form as in
            `fit`. One sample is enough.

        y : array-like of shape (n_samples,)
            True labels.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights. A sample of weight 2 counts as two samples.

        classes : array-like of shape (n_classes,), default=None
            Class label of each column, such as `estimator.classes_`. Required in the
            first call, and may be omitted in further calls.

        half_life : float, default=None
            Number of samples, or sum of weights, after which a past sample has half of
            its weight. All samples of a call have the same age. None means that past
            samples keep their weight.

        Returns
        -------
        self : Calibrator
            The updated calibrator.

        Raises
        ------
        ValueError
            If `classes` is missing in the first call or changes, if a parameter of the
            calibrator has changed, if the calibrator was fitted by `fit`, or if the
            samples are not valid. The calibrator is then left unchanged.

        Warns
        -----
        UserWarning
            If `from_logits=True` and `X` looks like probabilities.

        Notes
        -----
        The first 1000 samples, or `half_life` samples if these are fewer, are kept, and
        each call fits to all of them as `fit` does. From then on, memory and time do
        not depend on the number of past samples: their log loss is replaced by its
        second-order expansion, and a call minimises the sum of this expansion and of
        the log loss of the new samples (online Newton, as in [1]_). With `half_life`,
        past weights are first multiplied by 0.5 ** (w / half_life), where w is the sum
        of the new weights.

        While `n_errors_`, the number of misclassified samples in all calls, is smaller
        than the number that the calibrator needs, the parameters are shrunk towards no
        calibration: their distance to it is multiplied by the square root of the ratio
        of the two numbers. Therefore `partial_fit` does not warn of few errors. With
        `half_life`, one additional sample that agrees with the predictions is never
        forgotten, so that the parameters remain finite.

        `fit` starts anew. A calibrator that was fitted by `fit` cannot be updated: pass
        its data to a first call of `partial_fit` instead, which has the same result if
        there are enough errors. A saved calibrator can be updated after
        :func:`sklearn_calib.load`; its file contains the samples that are still kept.

        References
        ----------
        .. [1] C. Gupta and A. Ramdas, "Online Platt Scaling with Calibeating", ICML
           2023.
        """
        self._validate_params()
        # The expansion is that of the log loss, without a penalty.
        for name, wanted in {"objective": "nll", "penalty": "none"}.items():
            if getattr(self, name, wanted) != wanted:
                raise ValueError(
                    f'{name} must be "{wanted}" for partial_fit, got '
                    f"{getattr(self, name)!r}. Call fit instead."
                )
        X, y, sample_weight, classes = map(on_cpu, (X, y, sample_weight, classes))
        is_first = self._begin_online(classes)
        block = self._check_batch(X, y, sample_weight, reset=is_first)
        if len(block.codes) > 1:  # a single logit may well lie in [0, 1]
            self._warn_of_proba(check_numbers(X, "X"))
        remaining = _remaining(half_life, block.weight.sum())
        if not block.weight.any():
            return self
        n_errors = InputSummary(self, [block]).n_errors + (
            0 if is_first else self.n_errors_
        )
        if "_past_loss" in vars(self):
            fitted = self._step(block, remaining)
        else:
            limit = N_KEPT if half_life is None else min(N_KEPT, half_life)
            fitted = self._refit(block, remaining, limit)
        counts = np.bincount(block.codes, block.weight, len(self.classes_))
        self._past_counts = remaining * self._past_counts + counts
        self.n_errors_ = n_errors
        # With fewer errors than needed, the standard error then remains about the same.
        share = min(1.0, (n_errors / max(self._n_errors_needed, 1)) ** 0.5)
        shrunk = share * fitted + (1 - share) * self._online_parameters.identity
        self._set_parameters(shrunk, self._as_logits_of(block))
        return self

    def _begin_online(self, classes: Any) -> bool:
        """Return whether this is the first call, after checking the classes."""
        is_first = "_past_counts" not in vars(self)
        if is_first and "classes_" in vars(self):
            raise ValueError(
                "partial_fit cannot continue a calibrator that was fitted by fit, "
                "which does not keep what partial_fit needs. Clone the calibrator, "
                "and pass the data of fit to the first call of partial_fit of the "
                "clone."
            )
        if is_first and classes is None:
            raise ValueError(
                "classes must be passed on the first call to partial_fit, got None. "
                "Pass the class label of each column, such as estimator.classes_."
            )
        if is_first:
            distinct_labels(classes, "classes")  # refuses labels of other types
            self.classes_ = as_labels(classes, "classes")
            self._past_counts = np.zeros(len(self.classes_))
        elif classes is not None:
            given = as_labels(classes, "classes")
            if not np.array_equal(given, self.classes_):
                raise ValueError(
                    "classes must be the same as on the first call to partial_fit, "
                    f"{shown(self.classes_.tolist())}, got {shown(given.tolist())}. "
                    "Omit classes, or update a clone."
                )
        settings = str(self.get_params())
        seen = self.__dict__.setdefault("_settings_seen", settings)
        if settings != seen:
            raise ValueError(
                "Parameters must not change after the first call to partial_fit, got "
                f"{shorten(settings)} after {shorten(seen)}. Use sklearn.base.clone to "
                "create a new calibrator."
            )
        return is_first

    def _check_batch(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Block:
        """Return validated input, codes and weights."""
        y = as_labels(y, "y")
        check_order(X, y, "X", "y")
        given, X = X, self._check_input(X, reset=reset)
        labels = self.classes_.tolist()
        if self.classes_.ndim != 1 or not len(labels) == len({*labels}) == X.shape[1]:
            raise ValueError(
                f"classes must contain {X.shape[1]} distinct labels, one for each "
                f"column of X, got {shown(labels)}. Pass them in the order of the "
                "columns, such as estimator.classes_."
            )
        check_consistent_length(X, y, sample_weight)
        codes = encode_array(y, self.classes_, X.shape[1], "y")
        check_columns(given, y, self.classes_, "X")
        weight = check_chunk_weight(sample_weight, X)
        if weight is None:
            weight = np.ones(len(X))
        elif reset and not weight.any():
            raise ValueError(
                "sample_weight must not be zero for all samples of the first call to "
                "partial_fit, got zeros. Pass samples with positive weights."
            )
        return Block(X, codes, weight)

    def _refit(self, block: Block, remaining: float, limit: float) -> Floats:
        """Return parameters fitted to all samples; keep these or expand their loss."""
        past = self.__dict__.pop("_past_samples", None)
        if past is not None:
            codes, weight = past["weights"].argmax(axis=1), past["weights"].sum(axis=1)
            before = Block(past["scores"], codes, remaining * weight)
            block = Block(*map(np.concatenate, zip(before, block, strict=True)))
        data = array_blocks(*block)
        set_summary(self, data)
        # They are about few samples, to which more will be added.
        with without_warnings():
            self._fit_and_try(logits_of(self, data))
        if len(block.codes) < limit:
            weights = np.zeros(block.logits.shape)
            weights[np.arange(len(weights)), block.codes] = block.weight
            self._past_samples = {"scores": block.logits, "weights": weights}
        else:
            self._past_loss = self._expand_fit(data)
        return self._online_parameters.fitted

    def _expand_fit(self, data: Blocks) -> dict[str, Array]:
        """Return the expansion of what a fit to the data has minimised."""
        fitted, _, lowest, losses = self._online_parameters
        sums: Any = None
        for block in data:
            parts = [*map(expand, losses(self._as_logits_of(block)), fitted)]
            sums = parts if sums is None else [*map(Quadratic.plus, sums, parts)]
        for k, (curvature, target) in enumerate(sums):
            # Its slope is zero except at bounds. That of the log loss is not, if the
            # targets were smoothed, for example, as they are for separable classes.
            is_bound = fitted[k] <= lowest[k]
            flat = curvature @ fitted[k]
            sums[k] = Quadratic(curvature, np.where(is_bound, target, flat))
        return _as_past(sums)

    def _step(self, block: Block, remaining: float) -> Floats:
        """Return parameters fitted to new samples and to the expansion of past ones."""
        start, identity, lowest, losses = self._online_parameters
        curvatures, targets = self._past_loss["curvature"], self._past_loss["target"]
        new = (1 - remaining) / block.weight.sum()
        parameters, sums = [], []
        for k, loss in enumerate(losses(self._as_logits_of(block))):
            # The expansion of one sample that agrees with the predictions.
            curvature = new * loss(identity[k])[2]
            prior = Quadratic(curvature, curvature @ identity[k])
            past = Quadratic(curvatures[k], targets[k]).plus(prior, remaining)
            fitted = minimise(loss, past, start[k], lowest[k])
            parameters.append(fitted)
            sums.append(past.plus(expand(loss, fitted)))
        self._past_loss = _as_past(sums)
        return np.array(parameters)

    def _as_logits_of(self, block: Block) -> Block:
        """Return a block with logits in float64."""
        logits = self._as_logits(block.logits)
        return block._replace(logits=logits.astype(np.float64, copy=False))

    @property
    @abstractmethod
    def _online_parameters(self) -> OnlineParameters:
        """The parameters of the fitted map."""

    @abstractmethod
    def _set_parameters(self, parameters: Floats, block: Block) -> None:
        """Set the fitted attributes, given the parameters and the new samples."""


def _remaining(half_life: Any, weight: float) -> float:
    """Return the factor of past weights, given the sum of new ones."""
    if half_life is None:
        return 1.0
    is_number = isinstance(half_life, Real) and not isinstance(half_life, bool)
    if not (is_number and 0 < half_life < np.inf):
        raise ValueError(
            f"half_life must be a positive number of samples, got {shown(half_life)}. "
            "Use None to keep the weights of past samples."
        )
    return float(0.5 ** (weight / half_life))


def _as_past(sums: list[Quadratic]) -> dict[str, Array]:
    """Return the arrays of expansions."""
    curvature, target = map(np.array, zip(*sums, strict=True))
    return {"curvature": curvature, "target": target}


class Quadratic(NamedTuple):
    """The function `x @ curvature @ x / 2 - target @ x` of the parameters x."""

    curvature: Floats
    target: Floats

    def plus(self, other: Quadratic, factor: float = 1.0) -> Quadratic:
        """Return the sum, after multiplying this function by a factor."""
        return Quadratic(*(factor * x + y for x, y in zip(self, other, strict=True)))


def expand(loss: LossParts, parameters: Floats) -> Quadratic:
    """Return the expansion of a loss around parameters, without its constant."""
    _, gradient, curvature = loss(parameters)
    return Quadratic(curvature, curvature @ parameters - gradient)


def minimise(loss: LossParts, past: Quadratic, start: Floats, lowest: Floats) -> Floats:
    """Return the parameters that minimise a loss plus the expansion of past ones.

    Newton's method with an active set: a parameter at its lower bound stays there while
    the objective would increase with it.

    Parameters
    ----------
    loss : callable
        A convex function, see `LossParts`.

    past : Quadratic
        The expansion.

    start, lowest : ndarray of shape (n_parameters,)
        Initial values, and lower bounds.
    """

    def evaluate(point: Floats) -> tuple[float, Floats, Floats]:
        value, gradient, curvature = loss(point)
        # Relative to the start, as large constants would add rounding errors.
        moved = point - start
        past_slope = past.curvature @ moved
        value += float(moved @ (past_slope / 2 + slope))
        return value, gradient + past_slope + slope, curvature + past.curvature

    slope = past.curvature @ start - past.target
    point = np.maximum(start, lowest)
    current = evaluate(point)
    for _ in range(MAX_STEPS):
        value, gradient, curvature = current
        step = _feasible_step(point - lowest, gradient, curvature)
        decrement = -gradient @ step
        if decrement <= LITTLE:
            return np.maximum(point + step, lowest)
        falls = step < 0
        length = ((lowest - point)[falls] / step[falls]).min(initial=1.0)
        while True:
            trial = np.maximum(point + length * step, lowest)
            current = evaluate(trial)
            # Relative differences below 1e-14 are rounding errors.
            if current[0] <= value + 1e-14 * abs(value) - 1e-4 * length * decrement:
                break
            length /= 2
            if not length > SHORTEST:
                return point
        point = trial
    return point


def _feasible_step(distance: Floats, gradient: Floats, curvature: Floats) -> Floats:
    """Return the Newton step of the parameters that do not stay at their bound.

    `distance` contains their distances to the bounds.
    """
    is_free = (distance > 0) | (gradient < 0)
    while is_free.any():
        step = np.zeros_like(distance)
        free = curvature[np.ix_(is_free, is_free)]
        step[is_free] = _newton_step(free, gradient[is_free])
        is_blocked = (distance <= 0) & (step < 0)
        if not is_blocked.any():
            return step
        is_free &= ~is_blocked
    return np.zeros_like(distance)


def _newton_step(curvature: Floats, gradient: Floats) -> Floats:
    """Return the Newton step, after scaling the curvatures to one."""
    scale = np.sqrt(np.maximum(np.diag(curvature), 0))
    scale[scale == 0] = 1
    return -solve_jittered(curvature / np.outer(scale, scale), gradient / scale) / scale
