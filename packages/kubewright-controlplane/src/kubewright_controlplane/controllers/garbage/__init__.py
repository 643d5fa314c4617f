"""The garbage collector: deletes objects whose owners no longer exist, and finishes foreground deletions.

Follows https://kubernetes.io/docs/concepts/architecture/garbage-collection/ and
kubernetes/pkg/controller/garbagecollector.
"""
