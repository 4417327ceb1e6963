"""A classifier with a calibrator."""
