"""The operator fleet."""
