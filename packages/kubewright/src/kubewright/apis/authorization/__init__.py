"""The kinds of `authorization.k8s.io`, one module per version."""
