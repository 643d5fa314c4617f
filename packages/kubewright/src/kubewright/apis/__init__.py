"""The built-in kinds of Kubernetes as typed classes, one module a group version."""
