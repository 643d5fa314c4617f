"""Bundles in clusters without OLM: install, upgrade along the graph, clean up.

source        read a bundle from a folder or an image     render        the objects that OLM would make of it
modes         install modes and target namespaces          inventory     what is installed, kept in the cluster
preflight     what prevents an installation                crdchecks     whether a CRD can be upgraded
dependencies  what a bundle requires of the cluster        certificates  the certificates of its webhooks
graph         upgrade paths in a catalog                   install       apply a bundle, remove what it no longer has
cleanup       remove a bundle                              code          images as commands on this machine
"""
