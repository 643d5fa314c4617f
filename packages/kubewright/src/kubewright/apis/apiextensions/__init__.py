"""The kinds of `apiextensions.k8s.io`, one module per version."""
