"""The kinds of the core group, one module per version."""
