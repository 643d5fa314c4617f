"""The kinds of `scheduling.k8s.io`, one module per version."""
