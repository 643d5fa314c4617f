"""Permissions of the control plane's controllers: they act as a user that may do anything, and declare so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from kubewright.controllers import Controller
from kubewright.models import PolicyRule

_ANYTHING: Final = PolicyRule(api_groups=["*"], resources=["*"], verbs=["*"])


def unrestricted(controllers: Iterable[Controller[Any]]) -> list[Controller[Any]]:
    """Return the controllers with the permission to write anything, including the status of built-in kinds."""
    return [replace(each, rules=[_ANYTHING]) for each in controllers]
