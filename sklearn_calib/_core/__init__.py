"""Private numpy and SciPy functions that the other subpackages share."""
