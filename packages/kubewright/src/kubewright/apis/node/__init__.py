"""The kinds of `node.k8s.io`, one module a version."""
