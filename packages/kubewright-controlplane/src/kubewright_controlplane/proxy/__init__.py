"""The node ports of Services whose Pods run as processes: opened on this machine, and forwarded to the processes.

nodeports   which ports are open, and their targets
forwarder   one open port
relay       copies bytes between two connections
"""
