"""The kinds of `apps`, one module per version."""
