"""The cells of the Tables that `kubectl get` shows of built-in kinds; one module a group.

A module has a `CELLS` table: for each plural, the function that makes a row of an object. Its columns are facts of the
catalog, in the same order.

Follows k8s.io/kubernetes pkg/printers/internalversion.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from kubewright.apiserver import catalog
from kubewright.apiserver.printers.cells import name_and_creation
from kubewright.apiserver.registry.resource import Cells, Printer
from kubewright.machinery.gvk import GroupVersionResource

_MODULES: Mapping[str, str] = {}


def printer(gvr: GroupVersionResource) -> Printer | None:
    """The printer of a built-in resource; None for one that cannot be listed."""
    try:
        columns = catalog.columns(gvr)
    except KeyError:
        return None
    cells: Cells | None = None
    if gvr.group in _MODULES:
        module = import_module(f"kubewright.apiserver.printers.{_MODULES[gvr.group]}")
        cells = module.CELLS.get(gvr.resource)
    return Printer(columns, cells or name_and_creation)
