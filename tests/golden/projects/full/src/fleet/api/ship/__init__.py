"""The group ship."""
