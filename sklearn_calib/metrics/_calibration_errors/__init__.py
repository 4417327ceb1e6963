"""Calibration errors."""
