"""Patches, in the formats that the API server accepts.

A patch is a value; `Client.patch` sends it. Server-side apply is a separate verb: `Client.apply`. Source:
https://kubernetes.io/docs/reference/using-api/api-concepts/#patch-and-update
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import msgspec


class MergePatch(msgspec.Struct, frozen=True):
    """JSON merge patch (RFC 7396): sets fields, removes fields that are null, and replaces whole lists. For every kind.

    If the patch contains `metadata.resourceVersion`, it raises Conflict if the object has changed.
    """

    content_type: ClassVar[str] = "application/merge-patch+json"
    document: Mapping[str, Any]

    def encode(self) -> bytes:
        """Return the body of the request."""
        return msgspec.json.encode(self.document)


class StrategicPatch(msgspec.Struct, frozen=True):
    """Strategic merge patch: merges lists by their keys. For built-in kinds; custom resources get 415."""

    content_type: ClassVar[str] = "application/strategic-merge-patch+json"
    document: Mapping[str, Any]

    def encode(self) -> bytes:
        """Return the body of the request."""
        return msgspec.json.encode(self.document)


class JSONPatch(msgspec.Struct, frozen=True):
    """JSON patch (RFC 6902): a list of operations that apply all or none. A failed `test` raises Invalid with
    `patch_did_not_apply`.
    """

    content_type: ClassVar[str] = "application/json-patch+json"
    operations: Sequence[Mapping[str, Any]]

    def encode(self) -> bytes:
        """Return the body of the request."""
        return msgspec.json.encode(list(self.operations))


Patch: TypeAlias = MergePatch | StrategicPatch | JSONPatch
"""Any patch."""
