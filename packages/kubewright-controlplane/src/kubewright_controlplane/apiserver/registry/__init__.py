"""The generic registry: every verb on every resource, built-in or custom, in one way."""
