"""The cluster IPs and node ports of Services whose Pods run as processes: opened on this machine, and forwarded to the
processes.

services    the controller: which addresses are open, and their targets
targets     the endpoints of a Service, and the choice among them
tcp, udp    one open address
gate        which clients a Service is cut off from
budget      the sockets that connections may use
relay       copies bytes between two connections
"""
