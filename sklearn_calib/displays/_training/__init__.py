"""Displays of training."""
