"""Temperature scaling and its variants."""
