"""The DNS server of a cluster: names of Services and Pods, and of other hosts through the resolvers of this machine.

service     the Service `kube-dns`, and the start of the server
server      the sockets; imports the other modules with the first query
answers     from queries to answers
zone        the records of Services and Pods
upstream    queries to the resolvers of this machine

Follows https://github.com/kubernetes/dns/blob/master/docs/specification.md, version 1.1.
"""
