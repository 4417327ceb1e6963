"""Connections with scikit-learn: scorers, routing, parameters, responses."""
