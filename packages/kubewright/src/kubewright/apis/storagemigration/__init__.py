"""The kinds of `storagemigration.k8s.io`, one module per version."""
