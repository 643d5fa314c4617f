"""The functions that expressions in Kubernetes can call: CEL's standard ones, extensions, and Kubernetes' own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from kubewright_controlplane.schema.cel.functions import Function


@cache
def functions() -> Mapping[str, tuple[Function, ...]]:
    """Every function by its name."""
    from kubewright_controlplane.schema.cel.library import (
        formats,
        lists,
        net,
        optionals,
        quantities,
        semver,
        standard,
        strings,
        times,
    )

    found: dict[str, list[Function]] = {}
    for module in (standard, times, strings, lists, optionals, quantities, net, formats, semver):
        for function in module.FUNCTIONS:
            found.setdefault(function.signature.function, []).append(function)
    return {name: tuple(overloads) for name, overloads in found.items()}
