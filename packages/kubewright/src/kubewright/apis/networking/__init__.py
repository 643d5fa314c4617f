"""The kinds of `networking.k8s.io`, one module a version."""
