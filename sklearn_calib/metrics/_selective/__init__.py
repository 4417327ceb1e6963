"""Confidence as a ranking: selective and OOD detection metrics."""
