"""The kinds of `authorization.k8s.io`, one module a version."""
