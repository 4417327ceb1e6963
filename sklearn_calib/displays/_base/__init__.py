"""Axes, predictions and bands that displays share."""
