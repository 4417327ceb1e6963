"""A classifier that abstains."""
