"""The neural network classifier."""
