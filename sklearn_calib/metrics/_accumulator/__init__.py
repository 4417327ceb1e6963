"""Metrics of data in chunks."""
