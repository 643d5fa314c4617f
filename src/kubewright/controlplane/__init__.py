"""The controllers and nodes beside the API server, written with this SDK."""
