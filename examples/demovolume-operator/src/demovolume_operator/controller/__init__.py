"""The controllers, one module for each kind; both use `claims`."""
