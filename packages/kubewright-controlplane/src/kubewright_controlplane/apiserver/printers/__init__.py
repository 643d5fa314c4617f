"""The cells of the Tables that `kubectl get` shows of built-in kinds; a module for a group or for several small ones.

A module has a `CELLS` table: for each plural, the function that makes a row of an object. Its columns are facts of the
catalog, in the same order.

Follows k8s.io/kubernetes pkg/printers/internalversion.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from kubewright.machinery.gvk import GroupVersionResource
from kubewright_controlplane.apiserver import catalog
from kubewright_controlplane.apiserver.printers.cells import name_and_creation
from kubewright_controlplane.apiserver.registry.model import Cells, Printer

_MODULES: Final = {
    "": "core",
    "apps": "apps",
    "autoscaling": "autoscaling",
    "batch": "batch",
    "discovery.k8s.io": "networking",
    "events.k8s.io": "events",
    "networking.k8s.io": "networking",
}
_OTHERS: Final = "cluster"


def printer(gvr: GroupVersionResource) -> Printer | None:
    """The printer of a built-in resource; None for one that cannot be listed."""
    try:
        columns = catalog.columns(gvr)
    except KeyError:
        return None
    module = import_module(f"kubewright_controlplane.apiserver.printers.{_MODULES.get(gvr.group, _OTHERS)}")
    cells: Cells = module.CELLS.get(gvr.resource, name_and_creation)
    return Printer(columns, cells)
