"""The kinds of `apiregistration.k8s.io`, one module per version."""
