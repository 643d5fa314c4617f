"""The kinds of `batch`, one module per version."""
