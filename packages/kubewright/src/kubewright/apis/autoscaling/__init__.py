"""The kinds of `autoscaling`, one module a version."""
