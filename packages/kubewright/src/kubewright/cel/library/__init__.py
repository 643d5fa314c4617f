"""The functions of expressions in Kubernetes: CEL's standard functions, its extensions, and Kubernetes' own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from kubewright.cel.functions import Function


@cache
def functions() -> Mapping[str, tuple[Function, ...]]:
    """Return all functions by name."""
    from kubewright.cel.library import (
        authorization,
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
    for module in (standard, times, strings, lists, optionals, quantities, net, formats, semver, authorization):
        for function in module.FUNCTIONS:
            found.setdefault(function.signature.function, []).append(function)
    return {name: tuple(overloads) for name, overloads in found.items()}


@cache
def patch_functions() -> Mapping[str, tuple[Function, ...]]:
    """Return all functions by name, with those for expressions that describe a change of an object."""
    from kubewright.cel.library import patches

    return {**functions(), **{each.signature.function: (each,) for each in patches.FUNCTIONS}}
