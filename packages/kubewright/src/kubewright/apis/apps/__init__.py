"""The kinds of `apps`, one module a version."""
