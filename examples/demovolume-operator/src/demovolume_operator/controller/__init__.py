"""The controllers, one module for each kind; `claims` is what both know of claims."""
