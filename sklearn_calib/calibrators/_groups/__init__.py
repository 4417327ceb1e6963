"""Calibrators that use groups of samples."""
