"""The scheduler: chooses a node for each Pod."""
