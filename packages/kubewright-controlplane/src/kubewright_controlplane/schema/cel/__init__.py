"""What an API server adds to `kubewright.cel`: rules of schemas (`x-kubernetes-validations`), the types that a schema
declares, cost estimates, and the expressions of admission policies and webhooks.

Follows the environment of k8s.io/apiserver/pkg/cel (Kubernetes 1.36).
"""
