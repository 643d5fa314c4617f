"""The kinds of `networking.k8s.io`, one module per version."""
