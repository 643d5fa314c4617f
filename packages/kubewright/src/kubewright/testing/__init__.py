"""For tests of operators: an environment with a control plane, and the pytest plugin.

Environment      the embedded control plane, in this process
Cluster          access to a control plane of any sort, and what tests do there again and again
eventually, gone waiting
running          a Manager at work inside a test
Faults           what goes wrong between an operator and its API server
    killed_after_each_write  the lives of an operator that dies after its first write, its second, ...
ProcessNode      a node that runs Pods as processes of this machine, in any cluster
Image, STAND_INS images whose Pods run as processes of this machine
Walkthrough      a test that tells what happens
    Demo             a walk-through as a program, for `make demo`
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kubewright_controlplane.kubelet.processes.images import Image as Image
    from kubewright_controlplane.kubelet.processes.standins import STAND_INS as STAND_INS
    from kubewright_controlplane.kubelet.processnode import ProcessNode as ProcessNode
    from kubewright.testing._cluster import Cluster as Cluster
    from kubewright.testing._demo import Demo as Demo
    from kubewright_controlplane.environment import Environment as Environment
    from kubewright.testing._faults import Faults as Faults
    from kubewright.testing._faults import failure as failure
    from kubewright.testing._faults import killed_after_each_write as killed_after_each_write
    from kubewright.testing._operator import running as running
    from kubewright.testing._waiting import eventually as eventually
    from kubewright.testing._waiting import gone as gone
    from kubewright.testing._walkthrough import NotReached as NotReached
    from kubewright.testing._walkthrough import Summary as Summary
    from kubewright.testing._walkthrough import Walkthrough as Walkthrough

_HOMES: Final = {
    "Cluster": ".cluster",
    "Demo": ".demo",
    "Environment": ".environment",
    "Faults": ".faults",
    "Image": "..controlplane.nodes.processes.images",
    "NotReached": ".walkthrough",
    "ProcessNode": "..controlplane.nodes.processnode",
    "STAND_INS": "..controlplane.nodes.processes.standins",
    "Summary": ".walkthrough",
    "Walkthrough": ".walkthrough",
    "eventually": ".waiting",
    "failure": ".faults",
    "gone": ".waiting",
    "killed_after_each_write": ".faults",
    "running": ".operator",
}
"""Imported when it is asked for: pytest loads this package in every run, whether it is about operators or not."""

__all__ = [
    "STAND_INS",
    "Cluster",
    "Demo",
    "Environment",
    "Faults",
    "Image",
    "NotReached",
    "ProcessNode",
    "Summary",
    "Walkthrough",
    "eventually",
    "failure",
    "gone",
    "killed_after_each_write",
    "running",
]


if not TYPE_CHECKING:  # to a type checker the names above are all there are

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(_HOMES[name], __name__), name)
