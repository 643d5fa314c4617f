"""Nodes: a scheduler that picks one, and a kubelet that says that its pods run.

Of a simulated pod nothing is executed. One that is bound becomes ready at once; one that is deleted is gone at once,
whatever its grace; one that a Job owns succeeds. What a real kubelet reports is reported: phases, conditions, statuses
of containers, addresses.

processes/    pods that run, as processes of this machine
proxy/        node ports that lead to them
processnode   a node of such pods in another cluster
"""
