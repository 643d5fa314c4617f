"""Simulated nodes: a scheduler that picks one, and a kubelet that says that its pods run.

Nothing is executed. A pod that is bound becomes ready at once; one that is deleted is gone at once, whatever its grace;
one that a Job owns succeeds. What a real kubelet reports is reported: phases, conditions, statuses of containers,
addresses.
"""
