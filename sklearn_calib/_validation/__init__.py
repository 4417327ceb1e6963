"""Input of users, as plain arrays."""
