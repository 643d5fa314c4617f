"""The kinds of `discovery.k8s.io`, one module a version."""
