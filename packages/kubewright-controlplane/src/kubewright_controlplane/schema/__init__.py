"""Structural schemas: validate, default and prune in one pass; field ownership; CEL. Pure; does no I/O."""
