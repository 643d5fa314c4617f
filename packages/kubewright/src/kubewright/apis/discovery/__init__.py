"""The kinds of `discovery.k8s.io`, one module per version."""
