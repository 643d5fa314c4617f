"""Turns events into reconciles: work queue, sources, predicates, handlers, controller."""
