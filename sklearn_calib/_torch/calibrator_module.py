"""Torch modules of calibrators, from the expressions of their maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from sklearn_calib._expressions.eager import SYMBOLS
from sklearn_calib._expressions.symbol import Symbol


def gather(x: torch.Tensor, index: torch.Tensor, axis: int = 0) -> torch.Tensor:
    return x[index] if axis == 0 else x.index_select(axis, index)


def _maximum(x: Any, other: Any) -> torch.Tensor:
    if not isinstance(x, torch.Tensor):
        x, other = other, x
    is_tensor = isinstance(other, torch.Tensor)
    return torch.maximum(x, other) if is_tensor else x.clamp_min(other)


def _minimum(x: Any, other: Any) -> torch.Tensor:
    if not isinstance(x, torch.Tensor):
        x, other = other, x
    is_tensor = isinstance(other, torch.Tensor)
    return torch.minimum(x, other) if is_tensor else x.clamp_max(other)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Abs": torch.abs,
    "ArgMax": lambda x, axis: x.argmax(axis, keepdim=True),
    "Cast": lambda x, to: x.to(to),
    "Concat": lambda *x, axis: torch.cat(x, axis),
    "Exp": torch.exp,
    "Gather": gather,
    "Log": torch.log,
    "Max": _maximum,
    "Min": _minimum,
    "ReduceMax": lambda x, axes: x.amax(axes, keepdim=True),
    "ReduceMean": lambda x, axes: x.mean(axes, keepdim=True),
    "ReduceSum": lambda x, axes: x.sum(axes, keepdim=True),
    "Round": torch.round,
    "Where": torch.where,
}


class CalibratorModule(nn.Module):
    """Map of a fitted calibrator, from logits or probabilities to probabilities.

    It is computed in the dtype of the module, at first float64, and returns the dtype
    of its input. Half precision is computed in float32.

    Parameters
    ----------
    expression : callable
        Function of an expression that returns an expression.

    name : str
        Name of the calibrator, for the representation and messages.

    n_columns : int
        Number of columns of the input.

    takes_log_odds : bool, default=False
        Whether one column stands for two, of which the first contains zeros.
    """

    precision: torch.Tensor

    def __init__(
        self,
        expression: Callable[[Symbol], Symbol],
        name: str,
        n_columns: int,
        *,
        takes_log_odds: bool = False,
    ) -> None:
        super().__init__()
        self.name, self.n_columns = name, n_columns
        self.takes_log_odds = takes_log_odds
        # Only its dtype is used: with the buffers, it follows that of the module.
        self.register_buffer("precision", torch.zeros((), dtype=torch.float64))
        self.numbers: dict[str, Any] = {}
        graph = _Steps(self)
        graph.add("Input", [])
        self.output = expression(Symbol(graph, 0, np.float64)).value
        self.steps = graph.steps[1:]

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return the calibrated probabilities, of shape (n_samples, n_classes)."""
        if X.ndim == 1 and (self.n_columns == 1 or self.takes_log_odds):
            X = X[:, None]
        if self.takes_log_odds and X.ndim == 2 and X.shape[1] == 1:
            X = torch.cat([0 * X, X], 1)
        if X.ndim != 2 or X.shape[1] != self.n_columns:
            raise ValueError(
                f"The input of {self.name} must have the shape (n_samples, "
                f"{self.n_columns}), got {tuple(X.shape)}. Pass one row for each "
                "sample, with the columns of the fit."
            )
        dtype = torch.promote_types(self.precision.dtype, torch.float32)
        # In float32, a smaller number would be 0, whose logarithm is infinite.
        tiny = torch.finfo(dtype).tiny
        # The inputs of a step: earlier results by index, buffers and numbers by name.
        values: dict[Any, Any] = {0: X.to(dtype)}
        for name, each in self.named_buffers():
            values[name] = each.to(dtype) if each.is_floating_point() else each
        for name, number in self.numbers.items():
            values[name] = tiny if 0 < number < tiny else number
        for index, (op_type, inputs, options) in enumerate(self.steps, start=1):
            function = SYMBOLS.get(op_type) or FUNCTIONS[op_type]
            values[index] = function(*[values[each] for each in inputs], **options)
        proba = values[self.output]
        return proba.to(X.dtype) if X.is_floating_point() else proba

    def extra_repr(self) -> str:
        return self.name


class _Steps:
    """Operators of an expression, in their order.

    A result is an index, and a constant a name: an array is a buffer, so that it moves
    with the module.
    """

    def __init__(self, module: CalibratorModule) -> None:
        self.module = module
        self.steps: list[tuple[str, Sequence[Any], dict[str, Any]]] = []

    def constant(self, values: Any) -> Any:
        if values.ndim == 0:
            name = f"number_{len(self.module.numbers)}"
            self.module.numbers[name] = values.item()
            return name
        name = f"constant_{len(list(self.module.buffers()))}"
        self.module.register_buffer(name, torch.tensor(np.array(values)))
        return name

    def add(self, op_type: str, inputs: Sequence[Any], **options: Any) -> int:
        if "to" in options:
            options["to"] = getattr(torch, options["to"].name)
        self.steps.append((op_type, inputs, options))
        return len(self.steps) - 1
