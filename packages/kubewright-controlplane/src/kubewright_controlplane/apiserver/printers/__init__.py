"""Printer columns of built-in kinds: the cells of the Tables that `kubectl get` shows.

There is one module for each large group. Each has a table `CELLS`: for each plural, the function that returns the row
of an object. The columns come from the catalog, in the same order.

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
    """Return the printer of a built-in resource; None if it cannot be listed."""
    try:
        columns = catalog.columns(gvr)
    except KeyError:
        return None
    module = import_module(f"kubewright_controlplane.apiserver.printers.{_MODULES.get(gvr.group, _OTHERS)}")
    cells: Cells = module.CELLS.get(gvr.resource, name_and_creation)
    return Printer(columns, cells)
