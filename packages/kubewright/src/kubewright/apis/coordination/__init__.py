"""The kinds of `coordination.k8s.io`, one module per version."""
