"""The controllers and nodes beside the API server, written with this SDK.

plane            ControlPlane: all of them in one manager
deployment/      rolls replica sets
replicaset       keeps as many pods as are wanted
endpointslice    the addresses behind a Service
namespace        empties a namespace that is deleted
serviceaccount   what every namespace holds
garbage/         deletes what has lost its owners
nodes/           the scheduler, and a kubelet that simulates its pods
"""
