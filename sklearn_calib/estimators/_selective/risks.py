"""Risks that a selective classifier controls: error rates, costs, and callables."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import numpy as np

from sklearn_calib._validation.arrays import as_numbers, is_instance, shown
from sklearn_calib._validation.declarations import did_you_mean
from sklearn_calib._validation.labels import as_list
from sklearn_calib._validation.types import Array, Floats, Ints

# Rates among the samples of a predicted class, and of a true class.
PER_CLASS = {"false_discovery_rate", "false_negative_rate"}
NAMES = {"cost", "error_rate", *PER_CLASS}


@dataclass(frozen=True)
class Risk:
    """A mean loss of accepted samples, and its limit.

    Attributes
    ----------
    key : str or callable
        Name of the risk in `max_risk`, or the callable.

    limit : float
        Upper bound, in (0, `highest`).

    losses : callable
        Takes the codes of the true and of the predicted classes, and returns losses in
        [0, 1], with NaN for samples that do not count.

    label : object
        The class of a rate for each class, otherwise None.

    highest : float
        Unit of the losses: the largest cost, otherwise 1.

    is_binary : bool
        Whether each loss is known to be 0 or 1.
    """

    key: Any
    limit: float
    losses: Callable[[Ints, Ints], Floats]
    label: Any = None
    highest: float = 1.0
    is_binary: bool = True

    def __str__(self) -> str:
        name = getattr(self.key, "__name__", str(self.key))
        return name if self.label is None else f"{name} of {self.label!r}"


def resolve_risks(max_risk: Any, cost_matrix: Any, classes: Array) -> list[Risk]:
    """Return the risks of `max_risk`: a number for the error rate, or a dict.

    For None, the error rate has no limit.
    """
    if max_risk is None and cost_matrix is None:
        return [Risk("error_rate", np.nan, partial(_errors, "error_rate", None))]
    goals = max_risk if isinstance(max_risk, dict) else {"error_rate": max_risk}
    if not goals:
        raise ValueError(
            "max_risk must contain at least one risk, got {}. Add one, such as "
            '{"error_rate": 0.05}.'
        )
    if (cost_matrix is not None) != ("cost" in goals):
        given = "no" if cost_matrix is None else "a"
        raise ValueError(
            'cost_matrix and max_risk={"cost": ...} must be given together, got '
            f"{given} cost_matrix and max_risk={shown(max_risk)}. Add the other."
        )
    return [
        risk
        for key, goal in goals.items()
        for risk in _resolve(key, goal, cost_matrix, classes)
    ]


def measure(
    risks: list[Risk], losses: list[Floats], weight: Floats
) -> dict[Any, float | dict[Any, float]]:
    """Return each risk, the weighted mean of its losses; NaN if no sample counts."""
    measured: dict[Any, Any] = {}
    for risk, loss in zip(risks, losses, strict=True):
        counted = ~np.isnan(loss) & (weight > 0)
        value = float("nan")
        if counted.any():
            mean = np.average(loss[counted], weights=weight[counted])
            value = float(mean) * risk.highest
        if risk.label is None:
            measured[risk.key] = value
        else:
            measured.setdefault(risk.key, {})[risk.label] = value
    return measured


def _resolve(key: Any, goal: Any, cost_matrix: Any, classes: Array) -> list[Risk]:
    """Return the risk of one item of `max_risk`, or those of several classes."""
    if isinstance(key, str) and key in PER_CLASS:
        labels = as_list(classes)
        limits = goal if isinstance(goal, dict) else dict.fromkeys(labels, goal)
        unknown = [label for label in limits if label not in labels]
        if unknown or not limits:
            raise ValueError(
                f"max_risk[{key!r}] must have limits for some of the classes "
                f"{shown(labels)}, got {shown(goal)}. Pass one limit for all classes, "
                "or a dict of labels and limits."
            )
        return [
            _risk(key, limit, partial(_errors, key, labels.index(label)), label=label)
            for label, limit in limits.items()
        ]
    if callable(key):
        losses = partial(_losses_of, key, classes)
        return [_risk(key, goal, losses, is_binary=False)]
    if key == "cost":
        cost = _check_cost_matrix(cost_matrix, classes)
        highest = float(cost.max())
        costs = partial(_costs, cost / highest)
        is_binary = bool(np.isin(cost, [0, highest]).all())
        return [_risk(key, goal, costs, highest=highest, is_binary=is_binary)]
    if key == "error_rate":
        return [_risk(key, goal, partial(_errors, key, None))]
    raise ValueError(
        f"max_risk must have keys that are callables or among {sorted(NAMES)}, got "
        f"{shown(key)}.{did_you_mean(key, NAMES)} A false negative rate is 1 minus the "
        "recall of a class, and a false discovery rate is 1 minus its precision."
    )


def _risk(key: Any, limit: Any, losses: Any, **options: Any) -> Risk:
    """Return a risk after checking its limit."""
    risk = Risk(key, limit, losses, **options)
    is_number = isinstance(limit, Real) and not isinstance(limit, bool | np.longdouble)
    if is_number and 0 < limit < risk.highest:
        return risk
    raise ValueError(
        f"max_risk must have a limit in (0, {risk.highest:g}) for {risk}, got "
        f"{shown(limit)}. It is an upper bound of the mean loss."
    )


def _errors(name: str, code: int | None, codes: Ints, predicted: Ints) -> Floats:
    """Return 1 for errors and 0 for others, and NaN for samples of other classes."""
    losses = (codes != predicted).astype(np.float64)
    if name in PER_CLASS:
        counted = predicted if name == "false_discovery_rate" else codes
        losses[counted != code] = np.nan
    return losses


def _costs(cost: Floats, codes: Ints, predicted: Ints) -> Floats:
    """Return the cost of each sample."""
    return cost[codes, predicted]


def _losses_of(function: Any, classes: Array, codes: Ints, predicted: Ints) -> Floats:
    """Return the losses that a callable computes from labels."""
    losses = as_numbers(function(classes[codes], classes[predicted]), "max_risk")
    losses = losses.astype(np.float64)
    outside = (losses < 0) | (losses > 1)
    if losses.shape == codes.shape and not outside.any():
        return losses
    raise ValueError(
        "A callable in max_risk must return one loss in [0, 1], or NaN, for each "
        f"sample, as an array of shape {codes.shape}, got shape {losses.shape} with "
        f"{outside.sum()} values outside [0, 1]. Return the losses without averaging "
        "them, divided by the largest possible loss."
    )


def _check_cost_matrix(cost_matrix: Any, classes: Array) -> Floats:
    """Return the cost matrix in float64 after checking its shape and its values."""
    if is_instance(cost_matrix, "pandas", "DataFrame"):
        _check_order(cost_matrix, classes.tolist())
    n_classes = len(classes)
    cost = as_numbers(cost_matrix, "cost_matrix").astype(np.float64)
    shape = (n_classes, n_classes)
    if cost.shape == shape and (cost >= 0).all() and 0 < cost.max() < np.inf:
        return cost
    raise ValueError(
        "cost_matrix must contain finite non-negative costs, not all zero, and have "
        f"shape {shape}, got shape {cost.shape} with values from "
        f"{cost.min(initial=0):g} to {cost.max(initial=0):g}. Rows are true classes, "
        "and columns are predicted classes."
    )


def _check_order(cost_matrix: Any, classes: list[Any]) -> None:
    """Raise ValueError if a DataFrame contains the classes in another order."""
    for names in (cost_matrix.index.tolist(), cost_matrix.columns.tolist()):
        if names != classes and {*names} == {*classes}:
            raise ValueError(
                "cost_matrix must have rows and columns in the order of classes_, "
                f"{shown(classes)}, got {shown(names)}. Use cost_matrix.loc["
                f"{shown(classes)}, {shown(classes)}]."
            )
