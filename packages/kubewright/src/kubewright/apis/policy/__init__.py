"""The kinds of `policy`, one module a version."""
