"""The kinds of `storage.k8s.io`, one module per version."""
