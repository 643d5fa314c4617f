"""CustomResourceDefinitions: from the commit of one to its kind being served, and to its end.

validation   what a definition may say
naming       which of its names it gets, when others in the group have the same
serving      a definition as the resources it defines, one for each version
instances    how its objects behave
columns      how they are shown
definitions  follows the commits of definitions and does all of this in time
"""
