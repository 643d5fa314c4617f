"""Extension servers: programs that serve a group version of the API behind this server, announced by APIServices.

Follows k8s.io/kube-aggregator.
"""
