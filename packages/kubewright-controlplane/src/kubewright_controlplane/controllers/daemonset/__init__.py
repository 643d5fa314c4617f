"""The DaemonSet controller: a pod on every node that takes it."""
