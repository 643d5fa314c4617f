"""The group core."""
