"""The kinds of `authentication.k8s.io`, one module per version."""
