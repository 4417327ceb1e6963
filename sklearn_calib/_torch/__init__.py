"""Private functions shared by callbacks and estimators that need torch."""
