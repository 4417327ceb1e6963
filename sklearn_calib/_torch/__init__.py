"""What callbacks and estimators share that needs torch. Not public."""
