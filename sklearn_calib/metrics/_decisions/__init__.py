"""Metrics of decisions with costs."""
