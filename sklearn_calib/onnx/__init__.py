"""Export of fitted classifiers and calibrators to ONNX."""

from sklearn_calib.onnx._export import to_onnx

__all__ = ["to_onnx"]
