"""Proper scores and their decompositions."""
