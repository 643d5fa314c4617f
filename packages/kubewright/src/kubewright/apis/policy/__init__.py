"""The kinds of `policy`, one module per version."""
