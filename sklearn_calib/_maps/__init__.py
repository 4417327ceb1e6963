"""The maps of the calibrators as expressions: for ONNX, torch and arrays on devices."""
