"""The garbage collector: deletes what has lost its owners, and holds back owners that wait for what they own.

Follows https://kubernetes.io/docs/concepts/architecture/garbage-collection/ and
kubernetes/pkg/controller/garbagecollector.
"""
