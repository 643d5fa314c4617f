"""The controllers and nodes beside the API server, written with this SDK.

plane            ControlPlane: all of them in one manager
deployment/      rolls replica sets
replicaset       keeps as many pods as are wanted
statefulset/     pods with names, places and volumes that stay
daemonset/       a pod on every node
job/  cronjob/   pods that run until their work is done, and when
ttl              deletes Jobs that are over
endpointslice    the addresses behind a Service
endpoints        the same in the older form
storage/         claims, volumes, and a provisioner of volumes that hold nothing
namespace        empties a namespace that is deleted
serviceaccount   what every namespace holds
garbage/         deletes what has lost its owners
podgarbage       deletes pods that nobody runs
nodes/           the scheduler, and a kubelet that simulates its pods
"""
