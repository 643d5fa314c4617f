"""The kinds of `storage.k8s.io`, one module a version."""
