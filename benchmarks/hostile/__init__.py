"""Hostile input for every public name: tables of values, and a judge of what comes."""
