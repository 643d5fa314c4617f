"""The operator myweb-operator."""
