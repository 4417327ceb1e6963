"""One-vs-rest calibrators: a map for each class."""
