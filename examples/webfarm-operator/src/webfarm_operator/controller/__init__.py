"""The controllers, one module for each kind."""
