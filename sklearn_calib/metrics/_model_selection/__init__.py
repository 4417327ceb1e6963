"""Scorers, refit rules and tests that compare models."""
