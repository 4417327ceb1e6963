"""Losses of embeddings."""
