"""Differentiable confidence scores computed from logits."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from sklearn_calib._numerics.confidence import P, check_several
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import did_you_mean
from sklearn_calib.losses._base.checks import can_check_values, check_finite, is_choice
from sklearn_calib.losses._base.stable_gradients import stable_negative_entropy


def _margin(logits: Tensor) -> Tensor:
    first, second = logits.softmax(1).topk(2, dim=1).values.unbind(1)
    return first - second


def _p_norm(logits: Tensor) -> Tensor:
    check_several(logits.shape[1])
    above = logits - logits.amin(1, keepdim=True)
    # The score does not depend on the scale, so this has no gradient.
    largest = above.detach().amax(1, keepdim=True)
    scaled = above / torch.where(largest > 0, largest, 1)
    scaled = scaled - scaled.mean(1, keepdim=True)
    norm = torch.linalg.vector_norm(scaled, P, dim=1)
    # The norm is above 1/2, as the range is 1, except for equal logits.
    return scaled.amax(1) / norm.clamp_min(0.5)


# The same names as in sklearn_calib._numerics.confidence, which computes them in NumPy.
_CONFIDENCES: dict[str, Callable[[Tensor], Tensor]] = {
    "l2_norm": lambda logits: torch.linalg.vector_norm(logits.softmax(1), dim=1),
    "margin": _margin,
    "max_logit": lambda logits: logits.amax(1),
    "msp": lambda logits: logits.softmax(1).max(1).values,
    "negative_entropy": stable_negative_entropy,
    "negative_gini": lambda logits: logits.softmax(1).square().sum(1) - 1,
    "p_norm": _p_norm,
}


def check_score(name: str, value: Any) -> None:
    """Raise a ValueError unless a value is callable or the name of a score."""
    if not (callable(value) or is_choice(value, _CONFIDENCES)):
        raise ValueError(
            f"{name} must be one of {sorted(_CONFIDENCES)} or a callable that takes "
            f"logits, got {shown(value)}.{did_you_mean(value, _CONFIDENCES)}"
        )


LogitConfidence = Annotated[
    Literal[
        "l2_norm",
        "margin",
        "max_logit",
        "msp",
        "negative_entropy",
        "negative_gini",
        "p_norm",
    ]
    | Callable[[Tensor], Tensor],
    check_score,
]


def compute_confidence(confidence: LogitConfidence, logits: Tensor) -> Tensor:
    """Return one score per row of logits, larger for more confident predictions."""
    function = confidence if callable(confidence) else _CONFIDENCES[confidence]
    score = function(logits)
    if not isinstance(score, Tensor) or score.shape != logits.shape[:1]:
        raise ValueError(
            f"confidence must return a tensor of shape ({len(logits)},), one score per "
            f"row of logits, got shape {tuple(getattr(score, 'shape', ()))}. Reduce "
            "over the classes, as in logits.amax(1)."
        )
    if callable(confidence) and can_check_values(score):
        check_finite("confidence", score, among=logits.isfinite().all(1))
    return score.to(logits.dtype)
