"""Keeps a local, indexed copy of objects in step with the server: reflector, store, informer, lister."""
