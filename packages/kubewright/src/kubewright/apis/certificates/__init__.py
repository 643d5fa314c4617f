"""The kinds of `certificates.k8s.io`, one module per version."""
