"""Hostile input for every public name: tables of values, and rules for outcomes."""
