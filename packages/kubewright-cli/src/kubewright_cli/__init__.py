"""The `kubewright` command."""
