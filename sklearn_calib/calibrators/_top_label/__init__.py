"""Calibrators of the predicted class."""
