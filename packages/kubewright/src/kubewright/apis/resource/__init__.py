"""The kinds of `resource.k8s.io`, one module per version."""
