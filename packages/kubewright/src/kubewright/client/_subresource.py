"""A part of an object that is served at a URL of its own, as a kind of its own.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-uris
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from kubewright.client._dynamic import decode_object, encode_object
from kubewright.client._patch import Patch
from kubewright.client._rest import Query, RESTClient
from kubewright.models import Object

T = TypeVar("T", bound=Object)


class _Answer(msgspec.Struct):
    kind: str = ""


class Subresource:
    """One subresource of one object. Made by `Client.subresource`."""

    def __init__(self, rest: RESTClient, path: str, options: Query) -> None:
        self._rest = rest
        self._path = path
        self._options = options

    async def get(self, kind: type[T]) -> T:
        """Read it, as the kind that it has (`Scale`)."""
        return decode_object(kind, await self._rest.request("GET", self._path))

    async def create(self, body: T, *, dry_run: bool = False) -> T | None:
        """Ask for what `body` says (`Eviction`, `Binding`, `TokenRequest`): with what the server made of it, or None
        when it only says that it was done.
        """
        data = await self._rest.request("POST", self._path, self._query(dry_run), body=encode_object(body))
        if msgspec.json.decode(data, type=_Answer).kind == "Status":
            return None
        return decode_object(type(body), data)

    async def update(self, body: T, *, dry_run: bool = False) -> T:
        """Replace it. Raises Conflict when the object changed since `body` was read."""
        document = encode_object(body, update=True)
        data = await self._rest.request("PUT", self._path, self._query(dry_run), body=document)
        return decode_object(type(body), data)

    async def patch(self, kind: type[T], patch: Patch, *, dry_run: bool = False) -> T:
        """Change it; gives it as it then is."""
        data = await self._rest.request(
            "PATCH", self._path, self._query(dry_run), body=patch.encode(), content_type=patch.content_type
        )
        return decode_object(kind, data)

    def _query(self, dry_run: bool) -> Query:
        return {**self._options, "dryRun": "All"} if dry_run else self._options
