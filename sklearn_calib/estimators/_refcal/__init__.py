"""Refinement and calibration in two stages."""
