"""Pure numpy and SciPy functions without state, imported by every room."""
