"""An embedded Kubernetes control plane: API server, controllers, scheduler and kubelet in one process.

Environment       a control plane inside this process
RealControlPlane  the same, with kube-apiserver and etcd as processes
ProcessNode       a node that runs Pods as processes on this machine, in any cluster
Image, STAND_INS  images whose Pods run as processes on this machine
Demo, Walkthrough a demonstration as a program, and one that reports what changes in the cluster

Packages: `apiserver` serves the API, `schema` validates objects, `controllers`, `scheduler`, `kubelet` and `proxy` act
on them, `common` has what these share, and `plane` starts them together. Only the names above are public.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kubewright_controlplane.apiserver.admission.podsecurity.configuration import PodSecurity as PodSecurity
    from kubewright_controlplane.apiserver.options import ServerOptions as ServerOptions
    from kubewright_controlplane.demo import Demo as Demo
    from kubewright_controlplane.environment import Environment as Environment
    from kubewright_controlplane.kubelet.images import STAND_INS as STAND_INS
    from kubewright_controlplane.kubelet.images import Image as Image
    from kubewright_controlplane.plane import ControlPlaneOptions as ControlPlaneOptions
    from kubewright_controlplane.processnode import ProcessNode as ProcessNode
    from kubewright_controlplane.real import RealControlPlane as RealControlPlane
    from kubewright_controlplane.walkthrough import NotReached as NotReached
    from kubewright_controlplane.walkthrough import Summary as Summary
    from kubewright_controlplane.walkthrough import Walkthrough as Walkthrough

_HOMES: Final = {
    "ControlPlaneOptions": "plane",
    "Demo": "demo",
    "Environment": "environment",
    "Image": "kubelet.images",
    "NotReached": "walkthrough",
    "PodSecurity": "apiserver.admission.podsecurity.configuration",
    "ProcessNode": "processnode",
    "RealControlPlane": "real",
    "STAND_INS": "kubelet.images",
    "ServerOptions": "apiserver.options",
    "Summary": "walkthrough",
    "Walkthrough": "walkthrough",
}
"""Imported on first use: the API server alone loads no controllers."""

__all__ = [
    "STAND_INS",
    "ControlPlaneOptions",
    "Demo",
    "Environment",
    "Image",
    "NotReached",
    "PodSecurity",
    "ProcessNode",
    "RealControlPlane",
    "ServerOptions",
    "Summary",
    "Walkthrough",
]


if not TYPE_CHECKING:  # to a type checker the names above are all there are

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
