"""The kinds of `events.k8s.io`, one module a version."""
