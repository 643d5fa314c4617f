"""The operator webserver-operator."""
