"""The Widget operator in Kubewright."""
