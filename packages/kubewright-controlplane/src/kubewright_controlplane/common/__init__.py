"""Code that the controllers, the scheduler, the kubelet and the proxy share. It imports none of them.

pods          is a Pod active, ready, available
namespaces    reconciles in a namespace that is being deleted
selection     lookups by label selector through indexes
volumes       the claims of a Pod, and the annotations that bind them
listening     the addresses on which programs listen
network       addresses of Pods and the ports of their processes
permissions   controllers that may write anything
warnings      a transport that drops the API server's warnings
"""
