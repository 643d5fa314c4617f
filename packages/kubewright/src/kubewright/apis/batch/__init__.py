"""The kinds of `batch`, one module a version."""
