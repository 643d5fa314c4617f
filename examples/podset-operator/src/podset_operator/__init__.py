"""The operator podset-operator."""
