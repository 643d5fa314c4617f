"""The Common Expression Language as Kubernetes uses it: for gates of plans, and in an API server for the rules of
custom kinds and for policies.

`parser` parses the source, `checker` checks its types, and `compiler` turns it into closures over plain objects.
`expression` combines these steps. RE2 is needed for `matches`, `find` and `findAll` only.

Follows https://github.com/google/cel-spec and the environment of k8s.io/apiserver/pkg/cel (Kubernetes 1.36).
"""
