"""The kinds of `autoscaling`, one module per version."""
