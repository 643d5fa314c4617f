"""The kubewright command."""
