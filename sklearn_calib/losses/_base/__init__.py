"""Base classes and shared functions of the losses."""
