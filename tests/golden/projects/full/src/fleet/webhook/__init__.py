"""The webhooks, one module for each kind and version."""
