"""The API: the kinds of this controller."""
