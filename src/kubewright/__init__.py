"""Kubewright: build, test and run Kubernetes operators in Python."""
