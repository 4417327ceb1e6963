"""Values of an epoch in the history, of which loggers take numbers only."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from skorch import NeuralNet
from skorch.callbacks import (
    MlflowLogger,
    NeptuneLogger,
    PrintLog,
    SacredLogger,
    TensorBoard,
    WandbLogger,
)
from torch import Tensor

_LOGGERS = (
    MlflowLogger,
    NeptuneLogger,
    PrintLog,
    SacredLogger,
    TensorBoard,
    WandbLogger,
)


def record(net: NeuralNet, values: Mapping[str, Any]) -> None:
    """Record values in the history of the epoch; loggers ignore all but numbers.

    Arrays become lists, which files of the history can hold.
    """
    others = set()
    for name, value in values.items():
        if isinstance(value, np.ndarray | np.generic | Tensor):
            value = value.tolist()
        net.history.record(name, value)
        if not isinstance(value, Real):
            others.add(name)
    for _, callback in net.callbacks_:
        if isinstance(callback, _LOGGERS):
            callback.keys_ignored_.update(others)
