"""Losses that are scoring rules of each sample."""
