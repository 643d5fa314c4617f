"""CustomResourceDefinitions: from the commit of a definition until its kind is served, and until its deletion.

validation validates a definition naming which names it gets if others in its group want the same serving makes
resources of it, one for each version instances the strategy of its objects columns its printer columns definitions
observes definitions and runs all of this
"""
