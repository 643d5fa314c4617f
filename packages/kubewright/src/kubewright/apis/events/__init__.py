"""The kinds of `events.k8s.io`, one module per version."""
