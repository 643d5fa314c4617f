"""The node ports of Services with Pods that run: opened on this machine, and led to the Pods' processes.

nodeports   which ports are open, and where they lead
forwarder   one of them
relay       bytes between two connections
"""
