"""Finds the kinds that a package defines."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType

from kubewright.models._custom import CustomResource


def kinds_of(package: ModuleType) -> list[type[CustomResource]]:
    """Return every custom resource whose class is defined in `package` or in a module below it, in each version.

    Imports all modules of the package, and raises what they raise. The result is ordered by kind, group and version. A
    kind needs no registration, as for controller-gen with `paths=./...`.
    """
    import pkgutil

    modules = [package]
    for found in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{package.__name__}."):
        modules.append(importlib.import_module(found.name))  # noqa: PERF401 - each before what is below it is looked for
    kinds = {
        each
        for module in modules
        for _, each in inspect.getmembers(module, inspect.isclass)
        if issubclass(each, CustomResource) and each.__module__ == module.__name__ and each is not CustomResource
    }
    return sorted(kinds, key=lambda kind: (kind.__api__.kind, kind.__api__.group, kind.__api__.version))
