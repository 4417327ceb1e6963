"""Hypothesis tests of calibration."""
