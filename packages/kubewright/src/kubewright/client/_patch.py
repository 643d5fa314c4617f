"""Patches: what changes, in one of the ways that the API server understands.

A patch is a value; `Client.patch` sends it. Server-side apply is not among them: it is a verb of its own,
`Client.apply`. Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#patch-and-update
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import msgspec


@dataclass(frozen=True, slots=True)
class MergePatch:
    """RFC 7396: what is named is set, null removes, lists are replaced whole. Every kind understands it.

    With `metadata.resourceVersion` in it, it fails with Conflict when the object has changed.
    """

    content_type: ClassVar[str] = "application/merge-patch+json"
    document: Mapping[str, Any]

    def encode(self) -> bytes:
        """Return the body of the request."""
        return msgspec.json.encode(self.document)


@dataclass(frozen=True, slots=True)
class StrategicPatch:
    """A merge patch that merges lists by their keys and has directives. Built-in kinds only; 415 for custom ones."""

    content_type: ClassVar[str] = "application/strategic-merge-patch+json"
    document: Mapping[str, Any]

    def encode(self) -> bytes:
        """Return the body of the request."""
        return msgspec.json.encode(self.document)


@dataclass(frozen=True, slots=True)
class JSONPatch:
    """RFC 6902: a list of operations, all or none; a `test` that fails is an Invalid with `patch_did_not_apply`."""

    content_type: ClassVar[str] = "application/json-patch+json"
    operations: Sequence[Mapping[str, Any]]

    def encode(self) -> bytes:
        """Return the body of the request."""
        return msgspec.json.encode(list(self.operations))


Patch: TypeAlias = MergePatch | StrategicPatch | JSONPatch
"""Any of them."""
