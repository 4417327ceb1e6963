"""Curves of decisions, coverage and monitoring."""
