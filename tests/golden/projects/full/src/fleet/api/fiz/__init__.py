"""The group fiz."""
