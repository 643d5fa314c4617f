"""Version v1."""
