"""Calibrators with linear maps of logits or log-probabilities."""
