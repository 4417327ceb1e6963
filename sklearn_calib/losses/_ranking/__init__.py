"""Losses that rank samples."""
