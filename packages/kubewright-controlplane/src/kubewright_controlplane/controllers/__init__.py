"""The controllers of kube-controller-manager, written with Kubewright.

deployment/      rolls out ReplicaSets
replicaset       keeps the number of Pods
statefulset/     Pods with stable names and volumes
daemonset/       a Pod on every node
job/             Pods that run to completion
cronjob/         Jobs on a schedule
ttl              deletes finished Jobs
endpointslice    the addresses behind a Service
endpoints        the same, as deprecated Endpoints
storage/         claims, volumes, and a provisioner of simulated volumes
namespace        empties a namespace that is deleted
serviceaccount   the default objects of each namespace
garbage/         deletes objects whose owners no longer exist
podgarbage       deletes Pods without a node
claims           adoption and release of children
podcontrol       creates and deletes Pods
history          revisions of Pod templates
"""
