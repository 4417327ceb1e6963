"""Focal losses."""
