"""Reliability diagrams."""
