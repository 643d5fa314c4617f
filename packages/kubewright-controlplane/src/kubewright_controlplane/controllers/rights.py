"""What the control plane's controllers may do: they act for a user that may do anything, and declare so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from kubewright.controllers import Controller
from kubewright.models import PolicyRule

_ANYTHING: Final = PolicyRule(api_groups=["*"], resources=["*"], verbs=["*"])


def unrestricted(controllers: Iterable[Controller[Any]]) -> list[Controller[Any]]:
    """Controllers that write whatever they write, the status of built-in kinds too."""
    return [replace(each, rules=[_ANYTHING]) for each in controllers]
