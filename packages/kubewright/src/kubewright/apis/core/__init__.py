"""The kinds of the core group, one module a version."""
