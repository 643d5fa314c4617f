"""Nodes and their Pods: simulated, or running as processes on this machine.

A simulated Pod executes nothing. It is ready as soon as it is bound to a node, and gone as soon as it is deleted. A Pod
whose image has a command in the image table runs: each such container is a process, with its command, environment,
volumes, ServiceAccount token, address, probes and logs. Only PATH and the locale are inherited from the control plane.
A process is not isolated: it runs as the user of the control plane and sees that user's files. Resources, security
contexts and network policies are not enforced.

    kubelet       the controller: passes each Pod to the runtime that accepts it
    admission     the Pods that a node rejects
    runtime       PodRuntime, the interface of a runtime
    simulated     the runtime that simulates Pods
    processes     the runtime that runs Pods as processes
    node          the status of nodes
    status        the status of a Pod; `conditions` has its conditions
    server        the HTTP API: logs, exec, attach, port forwarding

    pod           one Pod from its creation to its end
    sandbox       the shared resources of a Pod's containers
    container     one container over its restarts, and one run of it
    environment   the files, variables and command of a container; from `sources`, `servicelinks` and
                  `volumes`
    probes        probes and lifecycle hooks; `grpchealth` has the call of gRPC probes
    process       one process with its output and terminal
    sockets       the addresses that programs in sandboxes bind and connect to
    exec          exec and attach sessions; `remotecommand` has their protocols
    portforward   connections to ports of a Pod
    logs          the output of containers
    eviction      Pods that use more disk than their limits
    usage         what containers use, from /proc
    images        the table from images to commands, and stand-ins for common images
    helpers/      programs that run with an interpreter of their own
"""
