"""Sums over samples in bins, from arrays of any library."""
