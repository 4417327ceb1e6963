"""Types of options that several losses share."""

from collections.abc import Callable
from typing import Literal

from torch import Tensor

Confidence = (
    Literal[
        "l2_norm",
        "margin",
        "max_logit",
        "msp",
        "negative_entropy",
        "negative_gini",
    ]
    | Callable[[Tensor], Tensor]
)
FloatOrAuto = float | Literal["auto"]
Norm = Literal["l1", "l2"]
Ranks = Literal["hard", "soft"]
Reduction = Literal["mean", "none", "sum"]
Weights = Literal["harmonic", "log", "sele"]
