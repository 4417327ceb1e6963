"""Penalties on miscalibration or confidence, with a base loss."""
