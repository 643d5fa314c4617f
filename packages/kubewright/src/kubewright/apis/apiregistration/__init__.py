"""The kinds of `apiregistration.k8s.io`, one module a version."""
