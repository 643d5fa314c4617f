"""The scheduler: chooses a node for each Pod.

scheduler   the controller
placement   the number of Pods on each node
volumes     the claims of a Pod
"""
