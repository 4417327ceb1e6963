"""Formulas on numpy arrays."""
