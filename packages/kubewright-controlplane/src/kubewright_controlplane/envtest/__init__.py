"""The programs that envtest starts, as stand-ins: `kube-apiserver` with the embedded API server, and `etcd`.

`assets` writes the folder for KUBEBUILDER_ASSETS. `kubeapiserver` and `etcd` are the programs in it, `flags` reads
their command lines, and `lifetime` ends them when the program that started them is gone.

Guarantees
    A suite that uses envtest runs unchanged, in Go, Java or any language.
    Objects outlive kube-apiserver, also one that is killed, as long as etcd's data folder exists.
    A flag that the embedded server does not honor is refused if it would restrict or extend what the server does, and
    warned about otherwise.
    A program that is started as a child ends with its parent, unless it was started with nohup or setsid.
Not guaranteed
    The etcd protocol: only health and version are answered. Objects are stored by kube-apiserver.

Follows sigs.k8s.io/controller-runtime pkg/internal/testing/controlplane, and the command lines of Kubernetes and etcd.
"""
