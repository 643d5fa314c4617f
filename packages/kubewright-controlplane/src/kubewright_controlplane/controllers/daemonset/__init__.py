"""The DaemonSet controller: runs a Pod on every eligible node."""
