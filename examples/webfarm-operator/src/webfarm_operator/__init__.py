"""The operator webfarm-operator."""
