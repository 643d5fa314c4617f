"""The controllers of kube-controller-manager, written with Kubewright.

deployment/             rolls out ReplicaSets
replicaset              keeps the number of Pods
replicationcontroller   the same, for the kind before ReplicaSets
statefulset/            Pods with stable names and volumes
daemonset/              a Pod on every node
job/                    Pods that run to completion
cronjob/                Jobs on a schedule
nodettl                 how long kubelets cache Secrets and ConfigMaps
ttl                     deletes finished Jobs
autoscaling/            changes the number of Pods by their usage
disruption              how many Pods may be evicted
endpointslice           the addresses behind a Service
endpoints               the same, as deprecated Endpoints
endpointslicemirroring  slices of Endpoints that a client wrote
storage/                claims, volumes, claims of ephemeral volumes, and a provisioner
namespace               empties a namespace that is deleted
serviceaccount          the default objects of each namespace
certificates            approves and signs certificate requests
nodelifecycle           taints nodes by their conditions
tainteviction           deletes Pods that do not tolerate a taint
garbage/                deletes objects whose owners no longer exist
podgarbage              deletes Pods without a node
claims                  adoption and release of children
podcontrol              creates and deletes Pods
history                 revisions of Pod templates
"""
