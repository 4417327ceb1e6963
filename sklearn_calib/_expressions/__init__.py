"""Formulas for numpy, arrays on other devices, torch and ONNX."""
