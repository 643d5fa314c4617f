"""Kinds that are one object in storage and several on the wire: which form is stored, and the way there and back.

A group's module names its own in `CONVERSIONS`, by version and plural.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from kubewright_controlplane.apiserver.registry.resource import Convert

VersionedPlural: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Conversion:
    """How one served version relates to the stored one; its values are `Resource`'s fields of the same names."""

    storage: str
    storage_api_version: str
    to_storage: Convert
    from_storage: Convert
