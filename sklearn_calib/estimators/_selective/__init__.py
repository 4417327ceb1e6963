"""Classifiers that abstain, or predict sets of classes."""
