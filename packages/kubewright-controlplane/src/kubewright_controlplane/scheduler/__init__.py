"""The scheduler: chooses a node for each Pod.

scheduler   the controller
podinfo     what a Pod requests
cluster     the nodes, and the Pods on them
filters     the nodes that a Pod can run on
topology    Pod affinity and topology spread
volumes     the claims of a Pod
scoring     the nodes that a Pod prefers
preemption  the Pods that make room for a Pod
diagnosis   why a Pod fits no node
"""
