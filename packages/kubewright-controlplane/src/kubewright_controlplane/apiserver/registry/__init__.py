"""The generic registry: every verb on every resource, the same for built-in and custom ones."""
