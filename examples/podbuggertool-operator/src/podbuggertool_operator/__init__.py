"""The operator podbuggertool-operator."""
