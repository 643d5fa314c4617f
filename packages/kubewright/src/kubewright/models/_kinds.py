"""The kinds that a package declares."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import ModuleType

from kubewright.models._custom import CustomResource


def kinds_of(package: ModuleType) -> list[type[CustomResource]]:
    """Every custom resource whose class is declared in `package` or in a module below it, in each of its versions.

    Imports all modules of the package, and raises what they raise. In the order of kinds, groups and versions. As
    controller-gen does with `paths=./...`, a kind is found by being there: nothing has to list it.
    """
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
