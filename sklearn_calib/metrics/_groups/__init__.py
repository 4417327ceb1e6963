"""Metrics of groups and of labels."""
