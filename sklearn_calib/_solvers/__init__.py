"""Fits that several topics share."""
