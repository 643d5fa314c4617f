"""Subresources that have a kind of their own.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-uris
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from kubewright.client._dynamic import decode_object, encode_object
from kubewright.client._patch import Patch
from kubewright.client._rest import JSON, RESTClient
from kubewright.client._write import Verb, WriteCall, Writer
from kubewright.models import Object

T = TypeVar("T", bound=Object)


class _Answer(msgspec.Struct):
    kind: str = ""


class Subresource:
    """One subresource of one object. `Client.subresource` makes it, and its writes go through the client's writer."""

    def __init__(self, rest: RESTClient, writer: Writer, target: WriteCall[Object]) -> None:
        """`target` is a write of this subresource; what each write adds is its verb, body and answer."""
        self._rest = rest
        self._writer = writer
        self._target = target

    async def get(self, kind: type[T]) -> T:
        """Read the subresource, as the kind that it has (`Scale`)."""
        return decode_object(kind, await self._rest.request("GET", self._target.path))

    async def create(self, body: T, *, dry_run: bool = False) -> T | None:
        """Send `body` (`Eviction`, `Binding`, `TokenRequest`).

        Returns what the server answers, or None if the server only answers that the request was carried out.
        """
        answer = await self._writer(self._call("create", type(body), encode_object(body), JSON, dry_run))
        if msgspec.json.decode(answer.data, type=_Answer).kind == "Status":
            return None
        return answer.decode()

    async def update(self, body: T, *, dry_run: bool = False) -> T:
        """Replace the subresource. Raises Conflict if the object has changed since `body` was read."""
        document = encode_object(body, update=True)
        return (await self._writer(self._call("update", type(body), document, JSON, dry_run))).decode()

    async def patch(self, kind: type[T], patch: Patch, *, dry_run: bool = False) -> T:
        """Patch the subresource. Returns it as it is afterwards."""
        return (await self._writer(self._call("patch", kind, patch.encode(), patch.content_type, dry_run))).decode()

    def _call(self, verb: Verb, kind: type[T], body: bytes, content_type: str, dry_run: bool) -> WriteCall[T]:
        target = self._target
        return WriteCall(
            target.kind,
            kind,
            verb,
            target.path,
            {**target.query, "dryRun": "All" if dry_run else None},
            body,
            namespace=target.namespace,
            name=target.name,
            subresource=target.subresource,
            content_type=content_type,
            dry_run=dry_run,
        )
