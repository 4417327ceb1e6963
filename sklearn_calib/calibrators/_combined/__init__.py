"""Calibrators that combine or wrap others."""
