"""The client of one controller: a CachedClient whose writes are watched.

Deletes go through the controller's fuse, where it has one; writes are told to its detector of hot loops, and those that
it has not declared are told of.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

import msgspec

from kubewright.cache._cache import Cache
from kubewright.cache._client import CachedClient, Deletion
from kubewright.cache._entry import ObjectKey
from kubewright.client._client import Client
from kubewright.client._rest import JSON, Query
from kubewright.controllers._attempt import CURRENT
from kubewright.controllers._fuse import Fuse
from kubewright.controllers._hotloop import HotLoops, Suspect
from kubewright.controllers._rbac import Undeclared
from kubewright.machinery.errors import KubewrightError
from kubewright.machinery.json import JSONObject, read_object
from kubewright.models import Object

T = TypeVar("T", bound=Object)


class GuardedClient(CachedClient):
    """Reads from `cache`, writes as `client` does, and keeps an eye on what it writes."""

    def __init__(
        self, client: Client, cache: Cache, undeclared: Undeclared, loops: HotLoops, fuse: Fuse | None = None
    ) -> None:
        super().__init__(client, cache)
        self._undeclared = undeclared
        self._loops = loops
        self._fuse = fuse

    async def _write(
        self, kind: type[T], method: str, path: str, query: Query, body: bytes, content_type: str = JSON
    ) -> T:
        self._undeclared.look(kind, self.endpoint(kind).subresource(path))
        suspect = self._loops.suspect(path)
        if suspect is None or query["dryRun"]:
            return await super()._write(kind, method, path, query, body, content_type)
        before = await self._before(kind, path, suspect)
        obj = await super()._write(kind, method, path, query, body, content_type)
        if before is not None:
            self._loops.compare(path, before, obj, CURRENT.get())
        return obj

    def _written(self, method: str, path: str, obj: Object) -> None:
        super()._written(method, path, obj)
        attempt = CURRENT.get()
        self._loops.written(obj)
        if method != "POST":
            self._loops.wrote(path, obj, attempt)
        elif attempt is not None:
            attempt.progressed = True

    def _deleted(self, kind: type[Object], key: ObjectKey, answer: Deletion) -> None:
        super()._deleted(kind, key, answer)
        self._loops.deleted(kind, key, answer.uid)

    async def _before(self, kind: type[T], path: str, suspect: Suspect) -> JSONObject | None:
        """The document at `path` as it is before a write; None when it is not known."""
        if suspect.is_at_stake:
            with suppress(KubewrightError):  # then who it is stays unknown, as far as the cache does not tell
                return read_object(await self.rest.request("GET", path, accept=self.endpoint(kind).accept))
        informer, last = self.cache.known(kind), suspect.last
        entry = informer.store.get(suspect.key) if informer is not None else None
        if entry is not None and (last is None or entry.resource_version > int(last.version or 0)):
            return read_object(entry.data)
        return last.document if last is not None else None

    async def _delete(self, kind: type[Object], name: str, namespace: str | None, options: JSONObject) -> bytes:
        self._undeclared.look(kind)
        self._pass(f'{kind.__api__.kind} "{ObjectKey(namespace or None, name)}"', options)
        return await super()._delete(kind, name, namespace, options)

    async def _delete_all(self, kind: type[Object], path: str, query: Query, options: JSONObject) -> bytes:
        if self._fuse is not None and "dryRun" not in options:
            found = await self.rest.request("GET", path, query, accept=self.endpoint(kind).accept_list)
            self._pass(f"{kind.__api__.plural}", options, len(msgspec.json.decode(found, type=_Items).items or ()))
        return await super()._delete_all(kind, path, query, options)

    def _pass(self, what: str, options: JSONObject, count: int = 1) -> None:
        attempt = CURRENT.get()
        if "dryRun" in options:
            return
        if attempt is not None:
            attempt.progressed = True
        if self._fuse is not None and (attempt is None or not attempt.allows_deletes):
            self._fuse.pass_through(what, count)


class _Items(msgspec.Struct, gc=False):
    items: list[msgspec.Raw] | None = None
