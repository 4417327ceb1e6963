"""Operations for the map of a calibrator, on numpy arrays and in graphs.

A calibrator whose `_calibrate` uses operators and these functions only is exported to
torch and ONNX, and calibrates arrays on other devices.
"""

from sklearn_calib._expressions.columns import interpolate, lookup, steps
from sklearn_calib._expressions.rows import is_top, log_odds, log_softmax, softmax
from sklearn_calib._expressions.symbol import (
    clip,
    exp,
    expit,
    hstack,
    log,
    log1p,
    log_expit,
    maximum,
    minimum,
    round_to,
    softplus,
    where,
)

__all__ = [
    "clip",
    "exp",
    "expit",
    "hstack",
    "interpolate",
    "is_top",
    "log",
    "log1p",
    "log_expit",
    "log_odds",
    "log_softmax",
    "lookup",
    "maximum",
    "minimum",
    "round_to",
    "softmax",
    "softplus",
    "steps",
    "where",
]
