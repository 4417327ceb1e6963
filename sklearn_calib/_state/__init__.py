"""What fitted objects write to files."""
