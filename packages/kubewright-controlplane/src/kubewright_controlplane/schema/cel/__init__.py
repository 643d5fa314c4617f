"""The Common Expression Language as Kubernetes has it: rules of custom kinds (`x-kubernetes-validations`).

Source is parsed (`parser`), checked against the types that a schema gives (`checker`), its worst case estimated
(`cost`), and made into closures over plain objects (`compiler`). `rules` puts these together for a schema.

Follows https://github.com/google/cel-spec and the environment of k8s.io/apiserver/pkg/cel (Kubernetes 1.36).
"""
