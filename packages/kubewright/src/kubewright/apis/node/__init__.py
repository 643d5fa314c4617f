"""The kinds of `node.k8s.io`, one module per version."""
