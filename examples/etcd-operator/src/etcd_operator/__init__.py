"""The operator etcd-operator."""
