"""The Common Expression Language as Kubernetes uses it, for the rules of custom kinds
(`x-kubernetes-validations`) and of admission policies and webhooks.

`parser` parses the source, `checker` checks it against the types of a schema, `cost` estimates its worst case, and
`compiler` turns it into closures over plain objects. `rules` combines these steps for a schema.

Follows https://github.com/google/cel-spec and the environment of k8s.io/apiserver/pkg/cel (Kubernetes 1.36).
"""
