"""Base classes of the calibrators, and their input."""
